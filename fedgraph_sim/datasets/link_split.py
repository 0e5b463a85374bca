"""Links as examples: which links of a graph train a model, which are held out, and the graph that is left."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.seeds import keys_for


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkExamples:
    """The m links of a graph: the unordered pairs of different nodes with an edge in at least one direction.

    `pairs` [2, m] holds the smaller node above the larger one, sorted by `pair_number`; `role` [m] is TRAIN, VAL or
    TEST; `visible` is the graph without the edges, in both directions, of links that validate or test. In a graph whose
    nodes are all linked to each other there is nothing to tell links from: m is 0, and all is visible.
    """

    pairs: NDArray[np.int64]
    role: NDArray[np.int8]
    visible: Graph


@dataclass(frozen=True, kw_only=True)
class LinkSplit:
    """Roles of the links: a fraction `val` of them validates, a fraction `test` tests, and the others train.

    A role is a function of `seed` and of the two nodes' numbers in the whole graph, so that a link has the same role in
    every client that holds it, and in the whole graph. The fractions are met on average.
    """

    val: float
    test: float
    seed: int

    def apply(self, graph: Graph) -> LinkExamples:
        """Return the links of a client's graph, or of the whole one."""
        low, high = np.sort(graph.edge_index, axis=0)
        proper = low != high
        numbers, first, link = np.unique(pair_number(low[proper], high[proper]), return_index=True, return_inverse=True)
        pairs = np.stack([low[proper][first], high[proper][first]])
        if len(numbers) == graph.num_nodes * (graph.num_nodes - 1) // 2:
            return LinkExamples(pairs=pairs[:, :0], role=np.zeros(0, np.int8), visible=graph)
        role = self._roles(graph.node_id[pairs])
        visible = np.ones(graph.num_edges, bool)
        visible[proper] = ~np.isin(role, (Role.VAL, Role.TEST))[link]
        return LinkExamples(pairs=pairs, role=role, visible=_with_edges(graph, visible))

    def _roles(self, nodes: NDArray[np.int64]) -> NDArray[np.int8]:
        low, high = np.sort(nodes, axis=0)
        uniform = keys_for(self.seed, (low << 32) | high) / 2.0**63
        roles = np.select([uniform < self.test, uniform < self.test + self.val], [Role.TEST, Role.VAL], Role.TRAIN)
        return roles.astype(np.int8)


def pair_number(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of pairs of nodes with low < high: high (high - 1) / 2 + low, from 0 without a gap."""
    return high * (high - 1) // 2 + low


def _with_edges(graph: Graph, kept: NDArray[np.bool_]) -> Graph:
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    return replace(graph, edge_index=graph.edge_index[:, kept], edge_weight=weight)
