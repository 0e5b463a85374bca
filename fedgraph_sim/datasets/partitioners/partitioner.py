"""What every partitioner has in common."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.errors import ConfigError


class Partitioner(ConfigTable):
    """A rule that gives each client its nodes; its fields are the `[partition]` table of a configuration."""

    summary: ClassVar[str]
    divides: ClassVar[tuple[str, ...]] = ("a graph",)
    """The nouns of the kinds of data that it can divide."""

    name: str = Field(description="name of the partitioner")

    def assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        """Return the sorted node indices of each client; none is empty.

        Raises `ConfigError` where the graph cannot be divided among so many clients.
        """
        if not 1 <= num_clients <= graph.num_nodes:
            raise ConfigError(
                f"clients={num_clients} but the graph has {counted(graph.num_nodes, 'node')};"
                f" set clients to a number from 1 to {graph.num_nodes}"
            )
        return self._assign(graph, num_clients, seed)

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        raise NotImplementedError


def members_of(owner: NDArray[np.integer], num_clients: int) -> list[NDArray[np.int64]]:
    """Return the sorted node indices of each client from each node's client, [num_nodes] in 0..num_clients-1."""
    order = np.argsort(owner, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(owner, minlength=num_clients))
    return np.split(order, ends[:-1])


def without_empty(owner: NDArray[np.int64], num_clients: int) -> NDArray[np.int64]:
    """Return each node's client after every client without nodes got half of the then largest one."""
    owner = owner.copy()
    sizes = np.bincount(owner, minlength=num_clients)
    for client in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        moved = np.flatnonzero(owner == largest)[sizes[largest] // 2 :]
        owner[moved] = client
        sizes[client] = len(moved)
        sizes[largest] -= len(moved)
    return owner
