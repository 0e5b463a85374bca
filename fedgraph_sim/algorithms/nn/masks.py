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
        own[matrix] = only_where_kept(own[matrix], mask, threshold)
    return own


def times_masks(weights: Weights, masks: Weights) -> Weights:
    """Return the weights with each matrix times its mask among `masks`, entry by entry."""
    return weights | {
        (matrix := name.removesuffix(MASK)): weights[matrix] * mask for name, mask in only_masks(masks).items()
    }


def sparsity(weights: Weights, *, threshold: float) -> dict[str, Tensor]:
    """Return ``<layer>_sparsity`` as [entries within +-threshold, all entries] of each mask."""
    pairs = {}
    for name, mask in only_masks(weights).items():
        layer = name.removesuffix(MASK).removesuffix(".weight")
        size = torch.full((), float(mask.numel()), device=mask.device)
        num_kept = only_where_kept(torch.ones_like(size), mask, threshold).sum()
        pairs[f"{layer}_sparsity"] = torch.stack([size - num_kept, size])
    return pairs


def only_where_kept(values: Tensor, mask: Tensor, threshold: float) -> Tensor:
    """Return `values` where the mask is beyond +-threshold, else 0.

    That is the derivative of hardshrink at the mask, times `values`: one pass, where comparing takes several.
    """
    result: Tensor = torch.ops.aten.hardshrink_backward(values, mask, threshold)
    return result
