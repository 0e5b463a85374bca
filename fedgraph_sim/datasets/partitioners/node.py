"""One client per node: federations whose parties are the graph's own nodes."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.errors import ConfigError


class Node(Partitioner):
    """Client k holds node k alone, and no edge; the edges are known to the server, as the links between clients."""

    summary: ClassVar[str] = "one client per node"

    name: Literal["node"] = Field("node", description="name of the partitioner")

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        if num_clients != graph.num_nodes:
            raise ConfigError(
                f"partition.name='node' makes {counted(graph.num_nodes, 'client')} but clients={num_clients}; "
                f"set clients={graph.num_nodes}"
            )
        return list(np.arange(graph.num_nodes)[:, None])
