"""Two co-purchase and two co-author networks.

Shchur et al., Pitfalls of Graph Neural Network Evaluation, 2018.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy import sparse

from fedgraph_sim.datasets import checks, raw
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.graph_dataset import GraphDataset

URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
FILES = {
    "Computers": ("Amazon", "amazon_electronics_computers.npz"),
    "Photo": ("Amazon", "amazon_electronics_photo.npz"),
    "CS": ("Coauthor", "ms_academic_cs.npz"),
    "Physics": ("Coauthor", "ms_academic_phy.npz"),
}
KEYS = ("adj_data", "adj_indices", "adj_indptr", "adj_shape", "attr_data", "attr_indices", "attr_indptr", "attr_shape")


class AmazonCoauthor(GraphDataset):
    """Computers, Photo (Amazon), CS or Physics (Coauthor); features are the presence of words, 0 or 1."""

    summary: ClassVar[str] = "co-purchase or co-author network, features are words of reviews or papers"

    name: Literal["Computers", "Photo", "CS", "Physics"] = Field(description="which of the four networks")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the path of the npz file."""
        family, file = FILES[self.name]
        places = (f"{family}/{self.name}/raw", f"{self.name}/raw", self.name, ".")
        folder = raw.obtain(self.name, files=[file], places=places, url=URL, data_dir=data_dir, cache_dir=cache_dir)
        return (folder / file,)

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the network from its npz file."""
        (path,) = self.files(data_dir, cache_dir)
        with raw.published(path):
            return _graph(path)


def _graph(path: Path) -> Graph:
    arrays = raw.load_npz(path, (*KEYS, "labels"))
    y = arrays["labels"].astype(np.int64)
    checks.labels(y, path)
    return Graph(
        x=sparse.csr_array(_csr(arrays, "attr") > 0, dtype=np.float32),
        edge_index=np.stack(_csr(arrays, "adj").tocoo().coords).astype(np.int64),
        edge_weight=None,
        y=y,
        role=np.zeros(len(y), dtype=np.int8),
        node_id=np.arange(len(y)),
        num_classes=int(y.max()) + 1,
    ).checked()


def _csr(arrays: raw.Arrays, name: str) -> sparse.csr_array:
    parts = (arrays[f"{name}_data"], arrays[f"{name}_indices"], arrays[f"{name}_indptr"])
    matrix = sparse.csr_array(parts, shape=tuple(arrays[f"{name}_shape"].tolist()))
    matrix.check_format(full_check=True)
    return matrix
