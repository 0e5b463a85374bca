"""Induced subgraphs: one client's nodes and the edges among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraph_sim.datasets.graph import Graph


@dataclass(frozen=True, kw_only=True, eq=False)
class Subgraph:
    """An induced subgraph and the positions, in the whole graph's `edge_index`, of the entries that it kept."""

    graph: Graph
    entries: NDArray[np.int64]


def induced_subgraphs(graph: Graph, members: Sequence[NDArray[np.int64]]) -> Iterator[Subgraph]:
    """Yield the subgraph induced by each node set, in order.

    `members`: sorted node indices of each set; sets may overlap. Edges are in local indices, sorted by source.
    Costs O(num_edges log num_edges) once, then for each set the sum of its nodes' degrees.
    """
    source, target = graph.edge_index
    order = np.argsort(source, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=graph.num_nodes))])
    local = np.full(graph.num_nodes, -1, dtype=np.int64)
    for nodes in members:
        local[nodes] = np.arange(len(nodes))
        entries = order[_ranges(starts[nodes], starts[nodes + 1])]
        entries = entries[local[target[entries]] >= 0]
        edge_index = np.stack([local[source[entries]], local[target[entries]]])
        local[nodes] = -1
        yield Subgraph(graph=_take(graph, nodes, edge_index, entries), entries=entries)


def _ranges(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate ``arange(start, end)`` over all pairs."""
    lengths = ends - starts
    offsets = np.cumsum(lengths) - lengths
    ranges: NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(starts - offsets, lengths)
    return ranges


def _take(graph: Graph, nodes: NDArray[np.int64], edge_index: NDArray[np.int64], entries: NDArray[np.int64]) -> Graph:
    return Graph(
        x=graph.x[nodes],
        edge_index=edge_index,
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[entries],
        y=graph.y[nodes],
        role=graph.role[nodes],
        node_id=graph.node_id[nodes],
        num_classes=graph.num_classes,
        client=None if graph.client is None else graph.client[nodes],
    )
