"""NeighGen: a generator of the neighbours that a node lacks (Zhang et al., NeurIPS 2021, section 4.1)."""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import SAGE, Weights, glorot, uniform
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream

ENCODER, GENERATOR, CLASSIFIER = "encoder.", "generator.", "classifier."
"""How the names of the parts' weights begin."""


@dataclass(frozen=True, kw_only=True)
class Generated:
    """Generated neighbours of b nodes: `owner` [r], positions among these, `features` [r, F]."""

    owner: Tensor
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
        # Unbound at once: the gradient of a slot taken by itself is as large as that of all.
        heads = zip(generator["features.weight"].unbind(), generator["features.bias"].unbind(), strict=True)
        features = [torch.tanh(h[owner] @ weight + bias) for owner, (weight, bias) in zip(owners, heads, strict=True)]
        return Generated(owner=torch.cat(owners), features=torch.cat(features))


def count_loss(predicted: Tensor, true: Tensor) -> Tensor:
    """Return L^d: the mean over nodes [b] of the smooth L1 distance of the numbers of missing neighbours."""
    return F.smooth_l1_loss(predicted, true)


def part(weights: Weights, prefix: str) -> Weights:
    """Return the weights whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): leaf for name, leaf in weights.items() if name.startswith(prefix)}


def with_prefix(weights: Weights, prefix: str) -> Weights:
    """Return the weights with `prefix` before their names."""
    return {prefix + name: leaf for name, leaf in weights.items()}
