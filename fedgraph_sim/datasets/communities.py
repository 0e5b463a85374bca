"""Communities of a graph by the Louvain method, a whole sweep of moves at a time.

Blondel et al., Fast Unfolding of Communities in Large Networks, 2008.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MOVE_PROBABILITY = 0.5
MAX_SWEEPS = 100
PATIENCE = 5
MIN_GAIN = 1e-5


def louvain(adjacency: sparse.csr_array, seed: int) -> NDArray[np.int64]:
    """Return the community of each node, [num_nodes] in 0..num_communities-1.

    `adjacency`: symmetric, without self loops. Maximises the modularity
    ``Q = sum over communities of (links inside / 2m - (sum of degrees / 2m) ** 2)``: nodes move to the neighbouring
    community that raises Q most, communities become nodes, and so on while Q rises. The original moves one node after
    another; here all nodes choose at once and a random half of them moves, which array operations can do.
    """
    rng = np.random.default_rng(seed)
    links = sparse.csr_array(adjacency, dtype=np.float64)
    owner = np.arange(links.shape[0])
    total = float(links.sum())
    while total > 0:
        community = _move(links, total, rng)
        owner = community[owner]
        indicator = _indicator(community, int(community.max()) + 1)
        if indicator.shape[1] == links.shape[0]:
            break
        links = sparse.csr_array(indicator.T @ links @ indicator)
    return owner


def modularity(links: sparse.csr_array, community: NDArray[np.int64]) -> float:
    """Return the modularity of a division, in [-0.5, 1]."""
    total = links.sum()
    source, target = links.tocoo().coords
    inside = links.tocoo().data[community[source] == community[target]].sum()
    degrees = np.bincount(community, weights=links.sum(axis=1))
    return float(inside / total - (degrees**2).sum() / total**2)


def _move(links: sparse.csr_array, total: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the best division found by moving single nodes, its communities numbered without gaps."""
    best = community = np.arange(links.shape[0])
    best_value = modularity(links, best)
    last_rise = 0
    for sweep in range(MAX_SWEEPS):
        wanted, gain = _best_moves(links, total, community)
        moving = (gain > 1e-12) & (rng.random(len(gain)) < MOVE_PROBABILITY)
        community = np.where(moving, wanted, community)
        value = modularity(links, community)
        if value > best_value + MIN_GAIN:
            best, best_value, last_rise = community, value, sweep
        if gain.max() <= 1e-12 or sweep - last_rise >= PATIENCE:
            break
    return np.unique(best, return_inverse=True)[1]


def _best_moves(
    links: sparse.csr_array, total: float, community: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return, for each node, the neighbouring community that suits it best, and its gain over staying.

    A community suits by ``links to it - degree * sum of its degrees / 2m``, the node itself left out of both.
    """
    num_nodes = len(community)
    degree = np.asarray(links.sum(axis=1))
    degrees = np.bincount(community, weights=degree, minlength=num_nodes)
    to_community = sparse.csr_array(links @ _indicator(community, num_nodes))
    node, candidate = to_community.tocoo().coords
    own = candidate == community[node]
    suits = to_community.data - own * links.diagonal()[node]
    suits -= degree[node] * (degrees[candidate] - own * degree[node]) / total
    stay = -degree * (degrees[community] - degree) / total
    stay[node[own]] = suits[own]
    top = np.full(num_nodes, -np.inf)
    np.maximum.at(top, node, suits)
    wanted = community.copy()
    chosen = suits == top[node]
    wanted[node[chosen]] = candidate[chosen]
    return wanted, top - stay


def _indicator(community: NDArray[np.int64], num_communities: int) -> sparse.csr_array:
    num_nodes = len(community)
    ones = np.ones(num_nodes)
    return sparse.csr_array((ones, community, np.arange(num_nodes + 1)), shape=(num_nodes, num_communities))
