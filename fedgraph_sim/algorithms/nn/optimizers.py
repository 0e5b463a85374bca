"""Optimisers as functions of weights, gradients and moments, for one client or, under ``torch.vmap``, for many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from fedgraph_sim.engine.tree import Tree

Weights = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1) with the L2 penalty in the gradient, as torch.optim.Adam has it."""

    lr: float
    weight_decay: float = 0.0

    def init(self, weights: Weights) -> Tree:
        """Return zero moments, and the number of steps taken so far, 0."""
        return {
            "step": next(iter(weights.values())).new_zeros(()),
            "mean": {name: torch.zeros_like(leaf) for name, leaf in weights.items()},
            "square": {name: torch.zeros_like(leaf) for name, leaf in weights.items()},
        }

    def update(self, weights: Weights, gradients: Weights, moments: Tree, *, where: Tensor) -> tuple[Weights, Tree]:
        """Return weights and moments after one step; where the boolean `where` is False nothing changes.

        `weights` stay as they are; the tensors of `moments` are used up, since nobody needs the old ones.
        """
        names = list(weights)
        trees = (weights, gradients, moments["mean"], moments["square"])
        tensors = [tree[name] for tree in trees for name in names]
        results = _fused_adam(self, where, moments["step"], *tensors)
        step, rest = results[0], results[1:]
        count = len(names)
        new = [dict(zip(names, rest[at : at + count], strict=True)) for at in range(0, 3 * count, count)]
        return new[0], {"step": step, "mean": new[1], "square": new[2]}


class _FusedAdam(torch.autograd.Function):
    """One Adam step of one client, by torch's fused kernel; its rule for ``torch.vmap`` steps all clients at once.

    Takes the numbers of steps before and returns those after, then [weights, gradients, means, squares] of all leaves
    and returns [weights, means, squares].
    """

    @staticmethod
    def forward(settings: Adam, where: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        weights, gradients, means, squares = _quarters(tensors)
        if not where:
            return (step.clone(), *(leaf.clone() for leaf in weights), *means, *squares)
        weights = [leaf.clone() for leaf in weights]
        steps = [step.clone() for _ in weights]
        _fused(settings, weights, gradients, means, squares, steps)
        return (steps[0], *weights, *means, *squares)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep nothing: a step has no derivative."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, settings: Adam, where: Tensor, step: Tensor, *tensors: Tensor) -> Any:
        count = info.batch_size

        def stacked(leaf: Tensor, dimension: int | None) -> Tensor:
            return leaf.expand(count, *leaf.shape) if dimension is None else leaf.movedim(dimension, 0)

        where, step = stacked(where, in_dims[1]), stacked(step, in_dims[2])
        weights, gradients, means, squares = _quarters(
            [stacked(leaf, dimension) for leaf, dimension in zip(tensors, in_dims[3:], strict=True)]
        )
        weights = [leaf.clone(memory_format=torch.contiguous_format) for leaf in weights]
        # Moments that every client shares are fresh zeros, spread without memory of their own.
        means, squares = ([leaf.contiguous() for leaf in part] for part in (means, squares))
        if bool(where.all()) and bool((step == step[0]).all()):
            steps = [step[0].clone() for _ in weights]
            _fused(settings, weights, gradients, means, squares, steps)
            step = steps[0].expand(count)
        else:
            step = _each_by_itself(settings, where, step.clone(), weights, gradients, means, squares)
        results = (step, *weights, *means, *squares)
        return results, (0,) * len(results)


_fused_adam: Callable[..., tuple[Tensor, ...]] = _FusedAdam.apply  # what torch declares of `apply` has no types


def _each_by_itself(
    settings: Adam,
    where: Tensor,
    step: Tensor,
    weights: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
) -> Tensor:
    """Step the clients in `where`, each with its own number of steps; return the numbers afterwards."""
    chosen = where.nonzero().flatten().tolist()
    steps = [step[client].clone() for client in chosen for _ in weights]
    parts = [[leaf[client] for client in chosen for leaf in part] for part in (weights, gradients, means, squares)]
    _fused(settings, parts[0], parts[1], parts[2], parts[3], steps)
    step[where] += 1
    return step


def _fused(
    settings: Adam,
    weights: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
) -> None:
    adam(
        weights,
        [gradient.contiguous() for gradient in gradients],
        means,
        squares,
        [],
        steps,
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        eps=1e-8,
        maximize=False,
    )


def _quarters(tensors: Any) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
    count = len(tensors) // 4
    parts = [list(tensors[at : at + count]) for at in range(0, 4 * count, count)]
    return parts[0], parts[1], parts[2], parts[3]
