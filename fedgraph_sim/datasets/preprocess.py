"""Steps between a raw graph and the graph that is partitioned."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedgraph_sim.datasets.graph import Features, Graph
from fedgraph_sim.datasets.subgraph import induced_subgraphs

SPARSE_BELOW = 0.25


def symmetrize(graph: Graph) -> Graph:
    """Return the graph with the reverse of every entry and without duplicates, sorted by source, then target.

    Of duplicate entries with weights the largest weight stays, so that a graph already symmetric does not change.
    """
    source, target = graph.edge_index
    n = graph.num_nodes
    keys = np.concatenate([source * n + target, target * n + source])
    if graph.edge_weight is None:
        return replace(graph, edge_index=np.stack(np.divmod(np.unique(keys), max(n, 1))))
    weight = np.tile(graph.edge_weight, 2)
    order = np.lexsort((-weight, keys))
    unique, first = np.unique(keys[order], return_index=True)
    return replace(graph, edge_index=np.stack(np.divmod(unique, max(n, 1))), edge_weight=weight[order][first])


def without_self_loops(graph: Graph) -> Graph:
    """Return the graph without entries from a node to itself."""
    keep = graph.edge_index[0] != graph.edge_index[1]
    weight = None if graph.edge_weight is None else graph.edge_weight[keep]
    return replace(graph, edge_index=graph.edge_index[:, keep], edge_weight=weight)


def with_self_loops(graph: Graph) -> Graph:
    """Return the graph with exactly one self loop per node, of weight 1, after the other entries."""
    graph = without_self_loops(graph)
    loops = np.tile(np.arange(graph.num_nodes), (2, 1))
    weight = graph.edge_weight
    if weight is not None:
        weight = np.concatenate([weight, np.ones(graph.num_nodes, dtype=np.float32)])
    return replace(graph, edge_index=np.concatenate([graph.edge_index, loops], axis=1), edge_weight=weight)


def adjacency(graph: Graph) -> sparse.csr_array:
    """Return the symmetric 0/1 adjacency matrix without self loops, whatever the direction of the edges."""
    source, target = without_self_loops(graph).edge_index
    ones = np.ones(2 * len(source), dtype=np.float32)
    indices = (np.concatenate([source, target]), np.concatenate([target, source]))
    matrix = sparse.coo_array((ones, indices), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    matrix.data[:] = 1
    return matrix


def largest_component(graph: Graph) -> Graph:
    """Return the subgraph of the largest weakly connected component; the first of equally large ones."""
    _, component = connected_components(adjacency(graph), directed=False)
    nodes = np.flatnonzero(component == np.bincount(component).argmax())
    return next(induced_subgraphs(graph, [nodes])).graph


def normalize_features(x: Features) -> Features:
    """Return ``(x - min(x)) / max(sum of the row, 1)``, as PyTorch Geometric's NormalizeFeatures does."""
    low = x.min()
    if low != 0:  # a shift leaves no zeros, hence nothing sparse
        x = _dense(x) - low
    sums: NDArray[np.float32] = np.maximum(np.asarray(x.sum(axis=1)), 1)
    if isinstance(x, sparse.csr_array):
        scaled: sparse.csr_array = (sparse.diags_array(1 / sums) @ x).tocsr().astype(np.float32)
        return scaled
    return (x / sums[:, None]).astype(np.float32)


def compact_features(x: Features) -> Features:
    """Return features as float32: CSR where fewer than a quarter of the entries are not zero, else dense."""
    num_entries = max(x.shape[0] * x.shape[1], 1)
    num_nonzero = x.count_nonzero() if isinstance(x, sparse.csr_array) else np.count_nonzero(x)
    if num_nonzero / num_entries >= SPARSE_BELOW:
        return np.ascontiguousarray(_dense(x), dtype=np.float32)
    matrix = sparse.csr_array(x, dtype=np.float32)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _dense(x: Features) -> NDArray[np.float32]:
    dense: NDArray[np.float32] = x.toarray() if isinstance(x, sparse.csr_array) else x
    return dense
