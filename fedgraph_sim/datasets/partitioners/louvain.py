"""Louvain communities, cut and merged into clients of similar size.

Zhang et al., Subgraph Federated Learning with Missing Neighbor Generation, 2021.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets.communities import louvain
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner, members_of, without_empty
from fedgraph_sim.datasets.preprocess import adjacency
from fedgraph_sim.errors import ConfigError

NODES_PER_CLASS = 2


class Louvain(Partitioner):
    """Disjoint unions of communities of similar size.

    With n = num_nodes // num_clients, communities of more than n - `delta` nodes are chopped, in order of node
    index, into pieces of that size; the pieces, largest first, go to the first client that has fewer than n nodes
    and stays below n + `delta`, or else to the smallest client. `delta` counts as at most n / 2.
    """

    summary: ClassVar[str] = "disjoint unions of Louvain communities, of similar size"

    name: Literal["louvain"] = Field("louvain", description="name of the partitioner")
    delta: int = Field(
        20,
        ge=0,
        description="nodes by which a client's size may differ from the mean",
        json_schema_extra={"unit": "nodes"},
    )
    every_class: bool = Field(False, description="move nodes until each client has two nodes of every class")

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        mean = graph.num_nodes // num_clients
        delta = min(self.delta, mean // 2)
        community = louvain(adjacency(graph), seed)
        pieces = _pieces(members_of(community, int(community.max()) + 1), mean - delta)
        owner = np.empty(graph.num_nodes, dtype=np.int64)
        sizes = np.zeros(num_clients, dtype=np.int64)
        for piece in pieces:
            fits = np.flatnonzero((sizes < mean) & (sizes + len(piece) < mean + max(delta, 1)))
            client = fits[0] if len(fits) else sizes.argmin()
            owner[piece] = client
            sizes[client] += len(piece)
        owner = without_empty(owner, num_clients)
        if self.every_class:
            _complete_classes(owner, graph, num_clients)
        return members_of(owner, num_clients)


def _pieces(communities: list[NDArray[np.int64]], limit: int) -> list[NDArray[np.int64]]:
    pieces = [nodes[start : start + limit] for nodes in communities for start in range(0, len(nodes), limit)]
    return sorted(pieces, key=len, reverse=True)


def _complete_classes(owner: NDArray[np.int64], graph: Graph, num_clients: int) -> None:
    """Move nodes of each class from the client with most of it to clients with fewer than two."""
    for label in range(graph.num_classes):
        nodes = np.flatnonzero(graph.y == label)
        if len(nodes) < NODES_PER_CLASS * num_clients:
            raise ConfigError(
                f"partition.every_class needs {NODES_PER_CLASS * num_clients} nodes of class {label} for"
                f" clients={num_clients} but there are {len(nodes)}; lower clients or set partition.every_class=false"
            )
        counts = np.bincount(owner[nodes], minlength=num_clients)
        for client in np.flatnonzero(counts < NODES_PER_CLASS):
            while counts[client] < NODES_PER_CLASS:
                giver = counts.argmax()
                owner[nodes[owner[nodes] == giver][-1]] = client
                counts[giver] -= 1
                counts[client] += 1
