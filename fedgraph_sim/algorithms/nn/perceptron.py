"""Perceptrons: encoders of single feature vectors, with torch's own initial weights."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import Weights, uniform
from fedgraph_sim.engine.sparse import Matrix

Activation = Literal["relu", "tanh", "sigmoid"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, kw_only=True)
class Perceptron:
    """h(x) = s(...s(x W_1)...) W_L, row by row: L = `num_layers` matrices with an elementwise s between them.

    Weights are ``layer<l>.weight`` [width_in, width_out] and, with `bias`, ``layer<l>.bias`` [width_out].
    """

    hidden: int = 64
    num_layers: int = 2
    activation: Activation = "relu"
    bias: bool = False

    def init(self, num_features: int, num_classes: int, generator: torch.Generator) -> Weights:
        """Draw all weights uniform in +-1/sqrt(width_in)."""
        widths = [num_features, *(self.num_layers - 1) * [self.hidden], num_classes]
        weights: Weights = {}
        for layer, (width, width_out) in enumerate(pairwise(widths), start=1):
            weights[f"layer{layer}.weight"] = uniform((width, width_out), width**-0.5, generator)
            if self.bias:
                weights[f"layer{layer}.bias"] = uniform((width_out,), width**-0.5, generator)
        return weights

    def __call__(self, weights: Weights, x: Tensor | Matrix) -> Tensor:
        """Return h [n, num_classes] of the rows of `x` [n, num_features]."""
        h = x
        for layer in range(1, self.num_layers + 1):
            if layer > 1:
                assert isinstance(h, Tensor)
                h = ACTIVATIONS[self.activation](h)
            h = h @ weights[f"layer{layer}.weight"]
            if self.bias:
                h = h + weights[f"layer{layer}.bias"]
        assert isinstance(h, Tensor)
        return h

    @property
    def has_factors(self) -> bool:
        """Whether `factors` describe its Jacobian."""
        return self.num_layers == 2 and not self.bias

    def factors(self, weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return slopes s'(x W_1) and activations s(x W_1), both [n, hidden], of two layers without bias.

        With them, dh_c/dW_1 = x (s' * W_2[:, c])^T and dh_c/dW_2 = s e_c^T for each row: all of the Jacobian.
        """
        assert self.has_factors
        activation = ACTIVATIONS[self.activation]
        inner = x @ weights["layer1.weight"]
        active, pull = torch.func.vjp(activation, inner)[:2]
        (slope,) = pull(torch.ones_like(inner))
        return slope, active
