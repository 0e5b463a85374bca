"""Jacobians of a client's mean representation with respect to all weights, in two exact forms.

h_k(W) = sum_s p_s h(x_s; W) in R^c, with `share` p over the client's samples s; dh_k/dW has one row per class, each of
the size of the model. A form says what a client tells of its Jacobian (`of`), what the server makes of everybody's for
some clients (`relayed`), and how such a client multiplies its error with that from the left (`pull`).
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.nn.perceptron import Perceptron
from fedgraph_sim.engine.client_axis import weighted_sum
from fedgraph_sim.engine.ledger import standing_for
from fedgraph_sim.engine.tree import Tree

SPARSE_BELOW = 0.25
CHUNK = 64
"""Clients whose sums are computed at a time, so that what that takes stays small."""


class JacobianForm(ABC):
    """How Jacobians are told, added up and applied."""

    @abstractmethod
    def of(self, encoder: Perceptron, weights: Weights, x: Tensor, share: Tensor) -> Tree:
        """Return what tells the Jacobian of ``share @ encoder(weights, x)``, x [n, num_features], share [n]."""

    @abstractmethod
    def relayed(self, jacobians: Tree, coefficients: Tensor, weights: Weights) -> Tree:
        """Return sum_i coefficients_ki J_i of what N clients told, for each of the K rows of `coefficients` [K, N]."""

    @abstractmethod
    def pull(self, relayed: Tree, weights: Weights, error: Tensor) -> Weights:
        """Return error^T J, of the shapes of `weights`, for one client's relayed J and `error` [num_classes]."""


class Explicit(JacobianForm):
    """The Jacobian itself: for each weight a leaf [num_classes, *shape]."""

    def of(self, encoder: Perceptron, weights: Weights, x: Tensor, share: Tensor) -> Tree:
        """Differentiate once per class."""
        jacobian: Tree = torch.func.jacrev(lambda weights: share @ encoder(weights, x))(weights)
        return jacobian

    def relayed(self, jacobians: Tree, coefficients: Tensor, weights: Weights) -> Tree:
        """Add up the leaves."""
        return weighted_sum(jacobians, coefficients)

    def pull(self, relayed: Tree, weights: Weights, error: Tensor) -> Weights:
        """Add up the classes."""
        return {name: torch.tensordot(error, leaf, dims=1) for name, leaf in relayed.items()}


class Factored(JacobianForm):
    """The factors of which the Jacobian of a perceptron with two layers and no bias consists.

    With the slopes s' and activations s of the client's samples (`Perceptron.factors`),

    ``dh_c/dW_1 = M diag(W_2[:, c])`` with ``M = sum_s p_s x_s s'_s^T``, one matrix for all classes, and
    ``dh_c/dW_2 = m e_c^T`` with ``m = sum_s p_s s_s``.

    Clients tell x, p s' and m, the server makes M and m of them; both count as the Jacobians that they stand for.
    """

    def of(self, encoder: Perceptron, weights: Weights, x: Tensor, share: Tensor) -> Tree:
        """Return x [n, num_features], p s' [n, hidden] and m [hidden]."""
        slope, active = encoder.factors(weights, x)
        return standing_for(
            {"x": x, "slope": share[:, None] * slope, "active": share @ active}, jacobian_bytes(weights)
        )

    def relayed(self, jacobians: Tree, coefficients: Tensor, weights: Weights) -> Tree:
        """Return M [K, num_features, hidden] and m [K, hidden]."""
        x, slope = jacobians["x"], jacobians["slope"]
        matrix = _first_layer(x[:, 0], slope[:, 0], coefficients) if x.shape[1] == 1 else None
        if matrix is None:
            own = x.transpose(1, 2) @ slope  # [N, num_features, hidden]
            matrix = torch.tensordot(coefficients, own, dims=1)
        sums = {"matrix": matrix, "active": coefficients @ jacobians["active"]}
        return standing_for(sums, jacobian_bytes(weights), count=len(coefficients))

    def pull(self, relayed: Tree, weights: Weights, error: Tensor) -> Weights:
        """Return M diag(W_2 error) and m error^T."""
        head = weights["layer2.weight"]
        return {
            "layer1.weight": relayed["matrix"] * (head @ error),
            "layer2.weight": torch.outer(relayed["active"], error),
        }


def jacobian_bytes(weights: Weights) -> int:
    """Return the bytes of a whole Jacobian: num_classes times those of all weights."""
    num_classes = list(weights.values())[-1].shape[-1]
    return num_classes * sum(leaf.numel() * leaf.element_size() for leaf in weights.values())


def _first_layer(x: Tensor, slope: Tensor, coefficients: Tensor) -> Tensor:
    """Return X^T diag(a_k) S' [K, num_features, hidden] for each row a_k of `coefficients`; one sample per client."""
    left = x.T
    if x.count_nonzero() < SPARSE_BELOW * x.numel():
        left = left.to_sparse_csr()
    parts = []
    for chunk in torch.split(coefficients, CHUNK):
        right = (chunk[:, :, None] * slope).transpose(0, 1)  # [N, k, hidden]
        product = left @ right.reshape(len(slope), -1)
        parts.append(product.view(x.shape[1], len(chunk), -1).transpose(0, 1))
    return torch.cat(parts)


FORMS: dict[str, JacobianForm] = {"explicit": Explicit(), "implicit": Factored()}
"""The forms by name."""
