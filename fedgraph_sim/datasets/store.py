"""The store of a partitioned graph.

nodes.parquet, edges.parquet: one row group per client, edges in local indices · whole_nodes.parquet,
whole_edges.parquet: the unsplit graph · client_graph.parquet: the links between clients · info.json: the figures of
the partition, written last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy import sparse

from fedgraph_sim.datasets.client_graph import client_graph
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.parquet import GraphFile, read_matrix, write_graphs, write_matrix
from fedgraph_sim.datasets.partition_info import PartitionInfo, Survey
from fedgraph_sim.datasets.storage import INFO_FILE, Store
from fedgraph_sim.datasets.subgraph import induced_subgraphs

__all__ = ["PartitionInfo", "PartitionStore"]


class PartitionStore(Store[Graph]):
    """A partitioned graph on disk; reading a damaged one raises `ConfigError`."""

    @cached_property
    def info(self) -> PartitionInfo:
        """Figures of the partition."""
        with self._reading():
            return TypeAdapter(PartitionInfo).validate_json((self.folder / INFO_FILE).read_bytes())

    def load(self, clients: Sequence[int]) -> dict[int, Graph]:
        """Return the subgraphs of `clients`, reading only theirs."""
        with self._reading():
            file = self._open("nodes.parquet", "edges.parquet")
            return {client: _sized(file.read(client), self.info.nodes[client]) for client in clients}

    def whole(self) -> Graph:
        """Return the unsplit graph; a node that no client holds has no role."""
        with self._reading():
            return _sized(self._open("whole_nodes.parquet", "whole_edges.parquet").read(0), self.info.num_nodes)

    def client_graph(self) -> sparse.csr_array:
        """Return the weights of the links between clients [num_clients, num_clients], row = target."""
        with self._reading():
            return read_matrix(self.folder / "client_graph.parquet", self.info.num_clients)

    def is_complete(self) -> bool:
        """Tell whether all files are there and whole."""
        try:
            num_graphs = len(self._open("nodes.parquet", "edges.parquet"))
            num_wholes = len(self._open("whole_nodes.parquet", "whole_edges.parquet"))
            read_matrix(self.folder / "client_graph.parquet", self.info.num_clients)
            return num_graphs == self.info.num_clients and num_wholes == 1
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException):
            return False

    def _open(self, nodes: str, edges: str) -> GraphFile:
        shape = {"num_features": self.info.num_features, "num_classes": self.info.num_classes}
        return GraphFile(self.folder / nodes, self.folder / edges, **shape)

    @classmethod
    def create(
        cls, folder: Path, data: Graph, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
    ) -> "PartitionStore":
        """Write the subgraphs that `members` induce to `folder` and return the store."""
        return cls._written(folder, lambda path: _write(path, data, members, dataset=dataset, partition=partition))


def _write(
    folder: Path, graph: Graph, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
) -> PartitionInfo:
    survey = Survey(graph)

    def surveyed() -> Iterator[Graph]:
        for nodes, part in zip(members, induced_subgraphs(graph, members), strict=True):
            survey.add(nodes, part)
            yield part.graph

    write_graphs(folder / "nodes.parquet", folder / "edges.parquet", surveyed())
    write_graphs(
        folder / "whole_nodes.parquet", folder / "whole_edges.parquet", [_without_unheld_roles(graph, members)]
    )
    write_matrix(folder / "client_graph.parquet", client_graph(graph, members))
    return survey.finish(dataset=dataset, partition=partition)


def _without_unheld_roles(graph: Graph, members: Sequence[NDArray[np.int64]]) -> Graph:
    held = np.zeros(graph.num_nodes, dtype=bool)
    held[np.concatenate(members)] = True
    return replace(graph, role=np.where(held, graph.role, Role.NONE).astype(np.int8))


def _sized(graph: Graph, num_nodes: int) -> Graph:
    if graph.num_nodes != num_nodes:
        raise ValueError(f"a graph of {num_nodes} nodes has {graph.num_nodes}")
    return graph
