"""Networks in which neighbours tend to be of different classes.

Platonov et al., A Critical Look at the Evaluation of GNNs under Heterophily, 2023; chameleon and squirrel:
Rozemberczki et al., Multi-Scale Attributed Node Embedding, 2021.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets import checks, raw
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset

URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
KEYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")


class Heterophilous(GraphDataset):
    """A heterophilous network; `own` roles are one of its ten published splits.

    The `-filtered` variants leave out nodes that are copies of other nodes, which leak from train to test.
    """

    summary: ClassVar[str] = "heterophilous network: neighbours tend to differ in class"

    name: Literal[
        "roman-empire",
        "amazon-ratings",
        "minesweeper",
        "tolokers",
        "questions",
        "chameleon",
        "squirrel",
        "chameleon-filtered",
        "squirrel-filtered",
    ] = Field(description="which of the networks")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")
    split_index: int = Field(0, ge=0, le=9, description="which of the ten published splits gives the own roles")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the path of the npz file."""
        stem = self.name.replace("-", "_")
        file = f"{stem}.npz"
        places = (f"{stem}/raw", f"HeterophilousGraphDataset/{stem}/raw", self.name, stem, ".")
        folder = raw.obtain(self.name, files=[file], places=places, url=URL, data_dir=data_dir, cache_dir=cache_dir)
        return (folder / file,)

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the network from its npz file."""
        (path,) = self.files(data_dir, cache_dir)
        with raw.published(path):
            return _graph(path, self.split_index)


def _graph(path: Path, split_index: int) -> Graph:
    arrays = raw.load_npz(path, KEYS)
    x = arrays["node_features"].astype(np.float32)
    y = arrays["node_labels"].astype(np.int64)
    checks.finite_features(x, path)
    checks.labels(y, path)
    return Graph(
        x=x,
        edge_index=np.ascontiguousarray(arrays["edges"].T, dtype=np.int64),
        edge_weight=None,
        y=y,
        role=_roles(arrays, split_index, len(y)),
        node_id=np.arange(len(y)),
        num_classes=int(y.max()) + 1,
    ).checked()


def _roles(arrays: raw.Arrays, split_index: int, num_nodes: int) -> NDArray[np.int8]:
    role = np.zeros(num_nodes, dtype=np.int8)
    for value, key in ((Role.TRAIN, "train_masks"), (Role.VAL, "val_masks"), (Role.TEST, "test_masks")):
        mask = arrays[key][split_index].astype(bool)
        if mask.shape != (num_nodes,):
            raise ValueError(f"a row of {key} has shape {list(mask.shape)} but there are {num_nodes} nodes")
        role[mask] = value
    return role
