"""Optimisers as pure functions of weights, gradients and moments."""

from dataclasses import dataclass

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
            "step": torch.zeros(()),
            "mean": {name: torch.zeros_like(leaf) for name, leaf in weights.items()},
            "square": {name: torch.zeros_like(leaf) for name, leaf in weights.items()},
        }

    def update(self, weights: Weights, gradients: Weights, moments: Tree) -> tuple[Weights, Tree]:
        """Return the weights and moments after one step; what came in stays as it is."""
        names = list(weights)
        stepped = [weights[name].clone() for name in names]
        means = [moments["mean"][name].clone() for name in names]
        squares = [moments["square"][name].clone() for name in names]
        steps = [moments["step"].clone() for _ in names]
        adam(
            stepped,
            [gradients[name] for name in names],
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )
        moments = {
            "step": steps[0],
            "mean": dict(zip(names, means, strict=True)),
            "square": dict(zip(names, squares, strict=True)),
        }
        return dict(zip(names, stepped, strict=True)), moments
