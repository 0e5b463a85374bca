"""Losses and scores over a mask of nodes or links, which may be empty."""

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


def link_losses(linked: Tensor, unlinked: Tensor, mask: Tensor) -> Tensor:
    """Return -log sigmoid(s) of each masked link's score s plus -log(1 - sigmoid(s)) of that of the pair beside it.

    Shapes: all [m]; 0 (with zero gradient) where `mask` is False.
    """
    # The scores are selected as well as the losses: see `cross_entropy`.
    linked, unlinked = torch.where(mask, linked, 0.0), torch.where(mask, unlinked, 0.0)
    return torch.where(mask, F.softplus(-linked) + F.softplus(unlinked), 0.0)


def auc(linked: Tensor, unlinked: Tensor, mask: Tensor) -> Tensor:
    """Return the area under the ROC curve, (1/p^2) sum_ij [s_i > t_j] + [s_i = t_j] / 2, and 0 for an empty mask.

    s_i and t_j are the p masked entries of `linked` and `unlinked`, both [m]: scores of pairs with and without a link.
    """
    count = mask.sum()
    ordered = torch.where(mask, unlinked, torch.inf).sort().values  # entries outside the mask come last
    below, not_above = (torch.searchsorted(ordered, linked.contiguous(), right=right) for right in (False, True))
    wins = (below + torch.minimum(not_above, count)).to(linked.dtype) / 2
    return torch.where(mask, wins, 0.0).sum() / count.clamp(min=1).square()
