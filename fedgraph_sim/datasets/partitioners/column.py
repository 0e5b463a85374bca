"""The parts that the data set itself names."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner, members_of
from fedgraph_sim.errors import ConfigError


class Column(Partitioner):
    """One client for each distinct value of the `client` column of the user's nodes, in sorted order."""

    summary: ClassVar[str] = "the clients of the data set's own `client` column"

    name: Literal["column"] = Field("column", description="name of the partitioner")

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        if graph.client is None:
            raise ConfigError(
                "partition.name='column' but the data set has no client column; add one or change partition.name"
            )
        values, owner = np.unique(graph.client, return_inverse=True)
        if len(values) != num_clients:
            raise ConfigError(
                f"clients={num_clients} but the client column names {counted(len(values), 'client')}; "
                f"set clients={len(values)}"
            )
        return members_of(owner, num_clients)
