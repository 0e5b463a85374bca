"""One attributed graph: the whole of a data set, or one client's part of it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Features: TypeAlias = NDArray[np.float32] | sparse.csr_array


class Role(IntEnum):
    """What a node is used for."""

    NONE = 0
    TRAIN = 1
    VAL = 2
    TEST = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A node-classification graph in arrays.

    Shapes: `x` [num_nodes, num_features], `edge_index` [2, num_edges] (source, target; an undirected edge is two
    entries), `edge_weight` [num_edges] or None for all ones, `y` [num_nodes] in 0..num_classes-1, or -1 where unknown,
    `role` [num_nodes] of `Role`, `node_id` [num_nodes]: the node's number in the whole graph, `client` [num_nodes]:
    the client that the data set itself assigns the node to, or None where it says nothing, `client_graph` [num_clients,
    num_clients]: how those clients, in the order of their numbers, are linked (row = target), where the data set itself
    says so, as it must if the nodes are a client's samples, which no edges join.
    """

    x: Features
    edge_index: NDArray[np.int64]
    edge_weight: NDArray[np.float32] | None
    y: NDArray[np.int64]
    role: NDArray[np.int8]
    node_id: NDArray[np.int64]
    num_classes: int
    client: NDArray[np.int64] | None = None
    client_graph: sparse.csr_array | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.y.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of directed edge entries."""
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        """Number of features of a node."""
        return int(self.x.shape[1])

    def count(self, role: Role) -> int:
        """Return how many nodes have `role`."""
        return int(np.count_nonzero(self.role == role))

    def checked(self) -> Self:
        """Return the graph. Raises `ValueError` where its arrays do not fit together."""
        n, weight = self.num_nodes, self.edge_weight
        if isinstance(self.x, sparse.csr_array):
            self.x.check_format(full_check=True)
        fits = {
            "x": self.x.ndim == 2 and self.x.shape[0] == n,
            "edge_index": self.edge_index.ndim == 2 and len(self.edge_index) == 2 and _within(self.edge_index, 0, n),
            "edge_weight": weight is None or weight.shape == self.edge_index.shape[1:],
            "y": self.y.ndim == 1 and _within(self.y, -1, self.num_classes),
            "role": self.role.shape == (n,) and _within(self.role, 0, len(Role)),
            "node_id": self.node_id.shape == (n,),
        }
        for name, fit in fits.items():
            if not fit:
                raise ValueError(f"{name} does not fit a graph of {n} nodes and {self.num_classes} classes")
        return self


def _within(values: NDArray[Any], low: int, end: int) -> bool:
    return values.size == 0 or bool(values.min() >= low and values.max() < end)
