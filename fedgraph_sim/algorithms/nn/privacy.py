"""Differential privacy of what clients share: clipping, Gaussian noise, and what they guarantee."""

from collections.abc import Sequence

import numpy as np
import torch

from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.tree import Tree, leaves, tree_map

ORDERS = [*np.arange(1.02, 2, 0.02).tolist(), *np.arange(2, 12, 0.1).tolist(), *range(12, 257, 4)]
"""Orders of Renyi differential privacy among which the best is taken."""


def clipped(tree: Tree, length: float) -> Tree:
    """Return the tree, as one vector, cut to at most `length` (L2); 0: as it is."""
    if not length:
        return tree
    norm = torch.stack([leaf.square().sum() for _, leaf in leaves(tree)]).sum().sqrt()
    return tree_map(lambda leaf: leaf * (length / norm.clamp(min=length)), tree)


def noisy(tree: Tree, deviation: float, random: RandomStream) -> Tree:
    """Return the tree with independent Gaussian noise on every entry; 0: as it is.

    The stream is a hash, good enough to simulate what noise does to learning, not to protect anybody.
    """
    if not deviation:
        return tree
    streams = {path: random.fold(place) for place, (path, _) in enumerate(leaves(tree))}
    paths = iter(streams)
    return tree_map(lambda leaf: leaf + deviation * streams[next(paths)].normal(tuple(leaf.shape)), tree)


def epsilon(releases: Sequence[tuple[float, float, int]], *, delta: float) -> float | None:
    """Return the epsilon that goes with `delta` of releases (deviation of the noise, clipping length, how often).

    Neighbouring federations differ in what one client shares, anything within the clipping length or nothing: a
    release is a Gaussian mechanism of noise multiplier s = deviation / length, and satisfies Renyi differential privacy
    of order a with a / (2 s^2) (Mironov, Renyi Differential Privacy, CSF 2017), which adds up over releases; the best
    order, and the step to epsilon, are opacus's. None, no guarantee, where something is shared without noise or without
    a clipping length.
    """
    if any(not deviation or not length for deviation, length, _ in releases):
        return None
    from opacus.accountants.analysis.rdp import compute_rdp, get_privacy_spent

    spent = [
        compute_rdp(q=1.0, noise_multiplier=deviation / length, steps=count, orders=ORDERS)
        for deviation, length, count in releases
    ]
    value, _ = get_privacy_spent(orders=ORDERS, rdp=np.sum(spent, axis=0), delta=delta)
    return float(value)
