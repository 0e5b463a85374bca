"""Losses and scores over a mask of nodes, which may be empty."""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over masked nodes of -log softmax(logits)[y], and 0 (with zero gradient) for an empty mask.

    Shapes: `logits` [n, num_classes], `y` and `mask` [n].
    """
    # The logits are selected as well as the losses: the gradient of a selected loss alone is 0 * inf elsewhere.
    losses = F.cross_entropy(torch.where(mask[:, None], logits, 0.0), y.clamp(min=0), reduction="none")
    return torch.where(mask, losses, 0.0).sum() / mask.sum().clamp(min=1)


def scores(logits: Tensor, y: Tensor, masks: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return ``<name>_loss`` and ``<name>_accuracy`` as [sum, count] over each mask's nodes."""
    losses = F.cross_entropy(logits, y.clamp(min=0), reduction="none")
    right = (logits.argmax(dim=-1) == y).to(losses.dtype)
    pairs = {}
    for name, mask in masks.items():
        count = mask.sum().to(losses.dtype)
        # Selected, not multiplied: an infinite loss elsewhere must not turn into 0 * inf.
        pairs[f"{name}_loss"] = torch.stack([torch.where(mask, losses, 0.0).sum(), count])
        pairs[f"{name}_accuracy"] = torch.stack([torch.where(mask, right, 0.0).sum(), count])
    return pairs
