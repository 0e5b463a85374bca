"""Who is linked to whom among the clients of a partition."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partition_info import membership


def client_graph(graph: Graph, members: Sequence[NDArray[np.int64]]) -> sparse.csr_array:
    """Return the weights of the links between different clients [num_clients, num_clients], row = target.

    Entry (i, j) adds up the weights of the edges from nodes of client j to nodes of client i, a node that several
    clients hold being a node of each. Where `members` are the data set's own clients, and it says how these are linked,
    that is returned.
    """
    if graph.client_graph is not None and _are_own_clients(graph, members):
        return graph.client_graph
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.astype(np.float64)
    sources, targets = graph.edge_index
    entries = sparse.coo_array((weight, (targets, sources)), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    owner = membership(members, graph.num_nodes)
    links = (owner.T @ entries @ owner).tocsr()
    links.setdiag(0)
    links.eliminate_zeros()
    return links


def _are_own_clients(graph: Graph, members: Sequence[NDArray[np.int64]]) -> bool:
    """Tell whether part k consists of the nodes whose client is the k-th of the data set's."""
    if graph.client is None or sum(map(len, members)) != graph.num_nodes:
        return False
    owner = np.empty(graph.num_nodes, np.int64)
    owner[np.concatenate(members)] = np.repeat(np.arange(len(members)), [len(nodes) for nodes in members])
    _, own = np.unique(graph.client, return_inverse=True)
    return bool(np.array_equal(owner, own))
