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
        step, *results = _stepped(settings, where[None], step[None], [leaf[None] for leaf in tensors])
        return (step[0], *(leaf[0] for leaf in results))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep nothing: a step has no derivative."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, settings: Adam, where: Tensor, step: Tensor, *tensors: Tensor) -> Any:
        def stacked(leaf: Tensor, dimension: int | None) -> Tensor:
            return leaf.expand(info.batch_size, *leaf.shape) if dimension is None else leaf.movedim(dimension, 0)

        where, step, *leaves = map(stacked, (where, step, *tensors), in_dims[1:])
        results = _stepped(settings, where, step, leaves)
        return results, (0,) * len(results)


_fused_adam: Callable[..., tuple[Tensor, ...]] = _FusedAdam.apply  # what torch declares of `apply` has no types


def _stepped(settings: Adam, where: Tensor, step: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    """Return numbers of steps, weights, means and squares after one step of all clients, each with a client axis."""
    count = len(leaves) // 4
    weights, gradients, means, squares = (leaves[at : at + count] for at in range(0, 4 * count, count))
    # Moments that every client shares are fresh zeros, spread without memory of their own.
    means, squares = ([leaf.contiguous() for leaf in part] for part in (means, squares))
    step, weights = torch.ops.fedgraph_sim.adam(
        settings.lr, settings.weight_decay, where, step, weights, gradients, means, squares
    )
    return (step, *weights, *means, *squares)


_LIBRARY = torch.library.Library("fedgraph_sim", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "adam(float lr, float weight_decay, Tensor where, Tensor step, Tensor[] weights, Tensor[] gradients,"
    " Tensor(a!)[] means, Tensor(b!)[] squares) -> (Tensor, Tensor[])"
)


@torch.library.impl(_LIBRARY, "adam", "CompositeExplicitAutograd")
def _adam(
    lr: float,
    weight_decay: float,
    where: Tensor,
    step: Tensor,
    weights: list[Tensor],
    gradients: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    """Return the numbers of steps and the weights after one step of the clients in `where`; moments change in place.

    An operator of its own, because which clients take part and how many steps each has taken decide how it is done.
    """
    weights = [leaf.clone(memory_format=torch.contiguous_format) for leaf in weights]
    gradients = [leaf.contiguous() for leaf in gradients]
    if bool(where.all()) and bool((step == step[0]).all()):
        steps = [step[0].clone() for _ in weights]
        _fused(lr, weight_decay, weights, gradients, means, squares, steps)
        return steps[0].repeat(len(step)), weights
    chosen = where.nonzero().flatten().tolist()
    steps = [step[client].clone() for client in chosen for _ in weights]
    parts = [[leaf[client] for client in chosen for leaf in part] for part in (weights, gradients, means, squares)]
    if chosen:
        _fused(lr, weight_decay, *parts, steps)
    return step + where.to(step.dtype), weights


def _fused(lr: float, weight_decay: float, *tensors: list[Tensor]) -> None:
    weights, gradients, means, squares, steps = tensors
    adam(
        weights,
        gradients,
        means,
        squares,
        [],
        steps,
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=lr,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )
