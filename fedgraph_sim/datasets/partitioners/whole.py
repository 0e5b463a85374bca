"""No partition: one client holds the whole graph."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.errors import ConfigError


class Whole(Partitioner):
    """One client with every node, for runs on undivided data."""

    summary: ClassVar[str] = "one client that holds everything"

    divides: ClassVar[tuple[str, ...]] = ("a graph", "time series")

    name: Literal["whole"] = Field("whole", description="name of the partitioner")

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        if num_clients != 1:
            raise ConfigError(f"partition.name='whole' makes 1 client but clients={num_clients}; set clients=1")
        return [np.arange(graph.num_nodes)]
