"""A graph in the user's own Parquet files."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets import columns
from fedgraph_sim.datasets.dataset import AbsolutePath
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset

RESERVED = ("id", "label", "split", "client", "__index_level_0__")  # the last one is the index that pandas writes
ROLES = {"train": Role.TRAIN, "val": Role.VAL, "test": Role.TEST}


class Folder(GraphDataset):
    """A folder with nodes.parquet and edges.parquet.

    nodes.parquet: `id` (integers or text, unique); `label` (integers or text; classes are numbered in sorted order;
    null where unknown: the node passes messages, but neither trains, validates nor tests); features: the list column
    `features`, all lists equally long, or, without it, every other column, in the file's order; optional `split`
    (train, val, test or null) and `client` (integers or text; clients in sorted order).
    edges.parquet: `source` and `target` (ids); optional `weight` (not negative).
    """

    summary: ClassVar[str] = "your own graph: a folder with nodes.parquet and edges.parquet"

    name: Literal["folder"] = Field("folder", description="name of the data set")
    path: AbsolutePath = Field(description="the folder")
    largest_component: bool = Field(False, description="keep only the largest weakly connected component")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the paths of both files."""
        return (self.path / "nodes.parquet", self.path / "edges.parquet")

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the graph, every column checked."""
        path = self.path / "nodes.parquet"
        nodes = columns.read_table(path, ("id", "label"), min_rows=1)
        ids = columns.keys(nodes, "id", path)
        columns.refuse_duplicates(ids, "id", path)
        y, num_classes = columns.encode_known(nodes, "label", path)
        edge_index, weight = _edges(self.path / "edges.parquet", ids)
        return Graph(
            x=_features(nodes, path),
            edge_index=edge_index,
            edge_weight=weight,
            y=y,
            role=_roles(nodes, path),
            node_id=np.arange(len(y)),
            num_classes=num_classes,
            client=columns.encode(nodes, "client", path)[0] if "client" in nodes.column_names else None,
        )


def _edges(path: Path, ids: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    edges = columns.read_table(path, ("source", "target"), min_rows=0)
    nouns = {"known": "id in nodes.parquet", "way_out": "remove the edge or add the node"}
    edge_index = np.stack([columns.positions(edges, end, ids, path, **nouns) for end in ("source", "target")])
    weighted = "weight" in edges.column_names
    return edge_index, columns.not_negative(edges, "weight", path) if weighted else None


def _features(nodes: pa.Table, path: Path) -> NDArray[np.float32]:
    if "features" in nodes.column_names:
        return columns.equal_lists(nodes, "features", path)
    names = [name for name in nodes.column_names if name not in RESERVED]
    columns.refuse_no_features(names, path)
    return np.stack([columns.numbers(nodes, name, path) for name in names], axis=1)


def _roles(nodes: pa.Table, path: Path) -> NDArray[np.int8]:
    if "split" not in nodes.column_names:
        return np.zeros(nodes.num_rows, dtype=np.int8)
    return columns.choices(nodes, "split", {word: int(role) for word, role in ROLES.items()}, path)
