"""Uniformly random parts of equal size."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner


class Random(Partitioner):
    """Disjoint uniformly random parts whose sizes differ by at most one node."""

    summary: ClassVar[str] = "disjoint random parts of equal size, which lose most edges"

    name: Literal["random"] = Field("random", description="name of the partitioner")

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        order = np.random.default_rng(seed).permutation(graph.num_nodes)
        return [np.sort(nodes) for nodes in np.array_split(order, num_clients)]
