"""NeighGen: a generator of the neighbours that a node lacks (Zhang et al., NeurIPS 2021, section 4.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import SAGE, Weights, glorot, uniform
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.ledger import standing_for
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.spread import added
from fedgraph_sim.engine.tree import Tree

ENCODER, GENERATOR, CLASSIFIER = "encoder.", "generator.", "classifier."
"""How the names of the parts' weights begin."""


@dataclass(frozen=True, kw_only=True)
class Generated:
    """Generated neighbours of b nodes: `owner` [r], positions among these, `features` [r, F].

    `features` are the tanh of `linear`, W_p h + c_p with p in `slot` [r] and h in `inputs` [r, width].
    """

    owner: Tensor
    slot: Tensor
    inputs: Tensor
    linear: Tensor
    features: Tensor


@dataclass(frozen=True, kw_only=True)
class NeighGen:
    """Encoder H^e, generator H^g = (dGen, fGen), and a classifier that helps to train them.

    z_v = GraphSAGE of two layers, [latent] · n_v = ReLU(w z_v + c), how many neighbours are missing · x_v^p =
    tanh(W_p h + c_p), p = 1..num_pred, with h the output of ReLU layers of `widths` for z_v + noise * N(0, 1). The
    sampler R takes round(n_v), at most num_pred, of the x_v^p at random; only these are computed.
    """

    latent: int
    widths: tuple[int, ...]
    num_pred: int
    noise: float

    @property
    def encoder(self) -> SAGE:
        """The encoder, without a head."""
        return SAGE(hidden=self.latent, dropout=0.0, head=False)

    def init(self, num_features: int, generator: torch.Generator) -> Weights:
        """Draw weights of encoder and generator: Glorot-uniform matrices, zero biases, and n_v near 1 at first."""
        encoder = self.encoder.init(num_features, 0, generator)
        own: Weights = {
            "count.weight": uniform((self.latent, 1), 1 / sqrt(self.latent), generator),
            "count.bias": torch.ones(1),
        }
        widths = (self.latent, *self.widths)
        for number, shape in enumerate(pairwise(widths), start=1):
            own |= {f"hidden{number}.weight": glorot(shape, generator), f"hidden{number}.bias": torch.zeros(shape[1])}
        heads = [glorot((widths[-1], num_features), generator) for _ in range(self.num_pred)]
        own |= {"features.weight": torch.stack(heads), "features.bias": torch.zeros(self.num_pred, num_features)}
        return with_prefix(encoder, ENCODER) | with_prefix(own, GENERATOR)

    def generator_sizes(self, num_features: int) -> tuple[int, int]:
        """Return how many numbers there are in dGen and in fGen."""
        widths = (self.latent, *self.widths)
        hidden = sum(rows * columns + columns for rows, columns in pairwise(widths))
        return self.latent + 1, hidden + self.num_pred * (widths[-1] + 1) * num_features

    def gradient_size(self, num_features: int, num_nodes: int) -> int:
        """Return how many numbers a gradient of fGen has at most, with factors, for a batch of `num_nodes` nodes."""
        _, whole = self.generator_sizes(num_features)
        rows = num_nodes * self.num_pred
        return whole - self.num_pred * self.widths[-1] * num_features + rows * (self.widths[-1] + num_features + 1)

    def encode(self, weights: Weights, graph: GraphTensors) -> Tensor:
        """Return z [n, latent]."""
        return self.encoder(part(weights, ENCODER), graph)

    def counts(self, generator: Weights, z: Tensor) -> Tensor:
        """Return how many neighbours each node lacks, [b], not rounded."""
        return torch.relu(z @ generator["count.weight"] + generator["count.bias"]).squeeze(1)

    def draw(self, generator: Weights, z: Tensor, random: RandomStream) -> Generated:
        """Return the neighbours that R takes for the nodes of z [b, latent], those of one slot p after another.

        Outside of batches: how many there are depends on z. The numbers of neighbours have no gradient here.
        """
        wanted = self.counts(generator, z).detach().round().clamp(max=self.num_pred)
        priority = random.fold(0).bits(len(z) * self.num_pred).reshape(len(z), self.num_pred)
        rank = priority.argsort(dim=1).argsort(dim=1)
        h = z
        if self.noise:
            draws = torch.randn(z.shape, generator=random.fold(1).generator())
            h = z + self.noise * draws.to(z.device)
        for number in range(1, len(self.widths) + 1):
            h = torch.relu(h @ generator[f"hidden{number}.weight"] + generator[f"hidden{number}.bias"])
        owners = [(rank[:, slot] < wanted).nonzero().flatten() for slot in range(self.num_pred)]
        inputs = [h[owner] for owner in owners]
        # Unbound at once: the gradient of a slot taken by itself is as large as that of all.
        heads = zip(inputs, generator["features.weight"].unbind(), generator["features.bias"].unbind(), strict=True)
        linear = torch.cat([own @ weight + bias for own, weight, bias in heads])
        return Generated(
            owner=torch.cat(owners),
            slot=torch.cat([torch.full_like(owner, slot) for slot, owner in enumerate(owners)]),
            inputs=torch.cat(inputs),
            linear=linear,
            features=torch.tanh(linear),
        )

    def head_gradient(self, drawn: Generated, errors: Tensor) -> Tree:
        """Return the gradient of the W_p and c_p, `errors` [r, F] being that of ``drawn.linear``.

        That of W_p, the sum of h errors^T over the rows of slot p, has 2048 rows for each p by default, and is of rank
        r: what is returned are `FACTORS`, which count as the whole in the ledger.
        """
        width, num_features = drawn.inputs.shape[1], errors.shape[1]
        bias = errors.new_zeros(self.num_pred, num_features).index_add(0, drawn.slot, errors)
        factors = {"slot": drawn.slot, "inputs": drawn.inputs.detach(), "errors": errors}
        whole = self.num_pred * width * num_features * errors.element_size()
        return {"features.bias": bias, "features.weight": standing_for(factors, whole)}


FACTORS = ("slot", "inputs", "errors")
"""The gradient of all W_p as rows of products: slot [r], inputs [r, width], errors [r, F]."""


def added_gradients(gradients: Sequence[Tree]) -> Tree:
    """Return the sum of gradients of fGen, that of the W_p in factors: rows below rows."""
    heads = [gradient["features.weight"] for gradient in gradients]
    factors = {name: torch.cat([head[name] for head in heads]) for name in FACTORS}
    others = [{name: leaf for name, leaf in each.items() if name != "features.weight"} for each in gradients]
    return added(others) | {"features.weight": heads[0] | factors}


def with_gradient(own: Weights, gradient: Tree) -> Weights:
    """Return the gradient `own` of a generator plus one of fGen in factors; `own` is used up."""
    head = gradient["features.weight"]
    for slot, total in enumerate(own["features.weight"]):
        rows = head["slot"] == slot
        total.addmm_(head["inputs"][rows].T, head["errors"][rows])
    return own | {name: own[name] + leaf for name, leaf in gradient.items() if name != "features.weight"}


def count_loss(predicted: Tensor, true: Tensor) -> Tensor:
    """Return L^d: the mean over nodes [b] of the smooth L1 distance of the numbers of missing neighbours."""
    return F.smooth_l1_loss(predicted, true)


def part(weights: Weights, prefix: str) -> Weights:
    """Return the weights whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): leaf for name, leaf in weights.items() if name.startswith(prefix)}


def with_prefix(weights: Weights, prefix: str) -> Weights:
    """Return the weights with `prefix` before their names."""
    return {prefix + name: leaf for name, leaf in weights.items()}
