"""What every data set of one graph has in common: its options, and the preprocessing that they select."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedgraph_sim.datasets import preprocess
from fedgraph_sim.datasets.dataset import Dataset
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.kind import Kind
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.store import PartitionStore
from fedgraph_sim.errors import ConfigError

GRAPH = Kind(
    noun="a graph",
    split=Split,
    store=PartitionStore,
    partition="metis",
    clients=10,
    protocols=("local-mean", "local-weighted", "global"),
)
"""One graph, divided among clients."""


class GraphDataset(Dataset):
    """A named source of one graph."""

    kind: ClassVar[Kind] = GRAPH

    largest_component: bool = Field(True, description="keep only the largest weakly connected component")
    normalize_features: bool = Field(True, description="shift features to a minimum of 0 and divide rows by their sum")
    undirected: bool = Field(True, description="add the reverse of every edge and drop duplicates")
    self_loops: bool = Field(False, description="true: exactly one self loop per node; false: none")

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the raw graph. `data_dir` is never written to; downloads go below `cache_dir`."""
        raise NotImplementedError

    def load(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the preprocessed graph, its nodes numbered 0..num_nodes-1.

        Order of the steps: undirected, self loops, largest component, features.
        Raises `ConfigError` where the raw files are missing or unusable.
        """
        graph = self.read(data_dir, cache_dir)
        if graph.client_graph is not None and self.largest_component:
            raise ConfigError(
                f"dataset.largest_component=true, but the nodes of {self.name} are samples, which no edges join; set it"
                " to false"
            )
        if self.undirected:
            graph = preprocess.symmetrize(graph)
        graph = preprocess.with_self_loops(graph) if self.self_loops else preprocess.without_self_loops(graph)
        if self.largest_component:
            graph = preprocess.largest_component(graph)
        x = preprocess.normalize_features(graph.x) if self.normalize_features else graph.x
        return replace(graph, x=preprocess.compact_features(x), node_id=np.arange(graph.num_nodes))
