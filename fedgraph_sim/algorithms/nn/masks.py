"""Masks: real factors, one for each entry of a weight matrix, that stand among the weights as ``<matrix>.mask``."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import Weights

MASK = ".mask"


def initial_masks(weights: Weights) -> Weights:
    """Return a mask of ones for each matrix of `weights`; biases have none."""
    return {name + MASK: torch.ones_like(leaf) for name, leaf in weights.items() if leaf.dim() == 2}


def only_masks(weights: Weights) -> Weights:
    """Return the masks alone."""
    return {name: leaf for name, leaf in weights.items() if name.endswith(MASK)}


def without_masks(weights: Weights) -> Weights:
    """Return everything else, as it is."""
    return {name: leaf for name, leaf in weights.items() if not name.endswith(MASK)}


def masked(weights: Weights, *, threshold: float = 0.0) -> Weights:
    """Return the weights to compute with: matrix times mask, entry by entry, 0 where the mask is within +-threshold."""
    own = without_masks(weights)
    for name, mask in only_masks(weights).items():
        matrix = name.removesuffix(MASK)
        own[matrix] = own[matrix] * (F.hardshrink(mask, threshold) if threshold > 0 else mask)
    return own


def pruned(weights: Weights, *, threshold: float) -> Weights:
    """Return the weights without the masks, matrices being 0 where the mask is within +-threshold."""
    own = without_masks(weights)
    for name, mask in only_masks(weights).items():
        matrix = name.removesuffix(MASK)
        own[matrix] = own[matrix] * kept(mask, threshold)
    return own


def sparsity(weights: Weights, *, threshold: float) -> dict[str, Tensor]:
    """Return ``<layer>_sparsity`` as [entries within +-threshold, all entries] of each mask."""
    pairs = {}
    for name, mask in only_masks(weights).items():
        layer = name.removesuffix(MASK).removesuffix(".weight")
        size = torch.full((), float(mask.numel()), device=mask.device)
        pairs[f"{layer}_sparsity"] = torch.stack([size - kept(mask, threshold).sum(), size])
    return pairs


def kept(mask: Tensor, threshold: float) -> Tensor:
    """Return 1 where a mask is beyond +-threshold, else 0: in floats, several times faster than booleans."""
    return F.hardshrink(mask, threshold).sign().abs()
