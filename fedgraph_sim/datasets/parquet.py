"""Graphs as Parquet files, a file of nodes and a file of edges, one row group per graph; and sparse matrices."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from fedgraph_sim.datasets.graph import Features, Graph


def write_graphs(nodes_path: Path, edges_path: Path, graphs: Iterable[Graph]) -> None:
    """Write each graph as one row group of both files; a graph may have no nodes or no edges."""
    nodes_file = edges_file = None
    try:
        for graph in graphs:
            nodes, edges = _node_table(graph), _edge_table(graph)
            nodes_file = nodes_file or pq.ParquetWriter(
                nodes_path, nodes.schema, use_dictionary=False, write_page_checksum=True
            )
            edges_file = edges_file or pq.ParquetWriter(
                edges_path, edges.schema, use_dictionary=False, write_page_checksum=True
            )
            nodes_file.write_table(nodes, row_group_size=max(nodes.num_rows, 1))
            edges_file.write_table(edges, row_group_size=max(edges.num_rows, 1))
    finally:
        for file in (nodes_file, edges_file):
            if file is not None:
                file.close()


class GraphFile:
    """Graphs that `write_graphs` wrote, read one at a time."""

    def __init__(self, nodes_path: Path, edges_path: Path, *, num_features: int, num_classes: int) -> None:
        self._nodes = pq.ParquetFile(nodes_path, page_checksum_verification=True)
        self._edges = pq.ParquetFile(edges_path, page_checksum_verification=True)
        self._num_features = num_features
        self._num_classes = num_classes

    def __len__(self) -> int:
        """Return the number of graphs; the two files of an intact store agree."""
        return int(min(self._nodes.num_row_groups, self._edges.num_row_groups))

    def read(self, index: int) -> Graph:
        """Return the graph of one row group, in arrays that the caller may write to.

        Raises `ValueError`, `OSError` or `KeyError` where the files are not as they were written.
        """
        nodes = self._nodes.read_row_group(index)
        edges = self._edges.read_row_group(index)
        weight = _numpy(edges["weight"], np.float32) if "weight" in edges.column_names else None
        return Graph(
            x=_features(nodes, self._num_features),
            edge_index=np.stack([_numpy(edges["source"], np.int64), _numpy(edges["target"], np.int64)]),
            edge_weight=weight,
            y=_numpy(nodes["y"], np.int64),
            role=_numpy(nodes["role"], np.int8),
            node_id=_numpy(nodes["node_id"], np.int64),
            num_classes=self._num_classes,
        ).checked()


def write_matrix(path: Path, matrix: sparse.csr_array) -> None:
    """Write a sparse matrix as one row per entry: row, column, value in float64."""
    entries = matrix.tocoo()
    rows, columns = (index.astype(np.int64) for index in entries.coords)
    table = pa.table({"row": rows, "column": columns, "value": entries.data.astype(np.float64)})
    pq.write_table(table, path, use_dictionary=False, write_page_checksum=True)


def read_matrix(path: Path, size: int) -> sparse.csr_array:
    """Return a matrix [size, size] that `write_matrix` wrote. Raises as `GraphFile.read` does."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = file.read()
    rows, columns = (_numpy(table[name], np.int64) for name in ("row", "column"))
    return sparse.coo_array((_numpy(table["value"], np.float64), (rows, columns)), shape=(size, size)).tocsr()


def _node_table(graph: Graph) -> pa.Table:
    columns = {"node_id": graph.node_id, "y": graph.y, "role": graph.role}
    if isinstance(graph.x, sparse.csr_array):
        offsets = pa.array(graph.x.indptr, pa.int32())
        columns["x_indices"] = pa.ListArray.from_arrays(offsets, pa.array(graph.x.indices, pa.int32()))
        columns["x_values"] = pa.ListArray.from_arrays(offsets, pa.array(graph.x.data, pa.float32()))
    else:
        columns["x"] = pa.FixedSizeListArray.from_arrays(pa.array(graph.x.ravel(), pa.float32()), graph.num_features)
    return pa.table(columns)


def _edge_table(graph: Graph) -> pa.Table:
    columns = {"source": graph.edge_index[0], "target": graph.edge_index[1]}
    if graph.edge_weight is not None:
        columns["weight"] = graph.edge_weight
    return pa.table(columns)


def _features(nodes: pa.Table, num_features: int) -> Features:
    if "x" in nodes.column_names:
        return _flat(nodes["x"], np.float32).reshape(nodes.num_rows, num_features)
    lengths = _numpy(nodes["x_indices"].combine_chunks().value_lengths(), np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    parts = (_flat(nodes["x_values"], np.float32), _flat(nodes["x_indices"], np.int32), indptr.astype(np.int32))
    return sparse.csr_array(parts, shape=(nodes.num_rows, num_features))


def _flat(column: pa.ChunkedArray, dtype: type[np.generic]) -> NDArray[Any]:
    return _numpy(column.combine_chunks().flatten(), dtype)


def _numpy(column: pa.Array | pa.ChunkedArray, dtype: type[np.generic]) -> NDArray[Any]:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=dtype)
