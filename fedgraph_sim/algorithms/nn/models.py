"""Models as pure functions ``model(weights, graph, random) -> outputs`` of nodes, weights being a dict of tensors.

Pure functions, because a step may run for one client or, under ``torch.vmap``, for all clients of an actor at once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt

import torch
from scipy import sparse
from torch import Tensor

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.engine.graph_tensors import GraphTensors, mean_adjacency, normalized_adjacency
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.sparse import Matrix

Weights = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """Hidden layers, each followed by ReLU and dropout, and a linear head; or hidden layers and no head.

    `hidden` is the width of the `num_layers` hidden layers; `dropout` the probability that an entry is dropped in
    training. Without a `head` the outputs are those of the last layer, before ReLU: embeddings of the nodes.
    """

    hidden: int = 128
    dropout: float = 0.5
    head: bool = True
    num_layers: int = 2

    @property
    def layers(self) -> list[str]:
        """The names of the hidden layers: conv1, conv2, ..."""
        return [f"conv{number}" for number in range(1, self.num_layers + 1)]

    @abstractmethod
    def layer(self, name: str, weights: Weights, graph: GraphTensors, h: Tensor | Matrix) -> Tensor:
        """Return the output [n, hidden] of the hidden layer `name` for its input [n, width], before ReLU."""

    @abstractmethod
    def layer_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the parameters of a hidden layer with input `width`: a matrix is [width, hidden], a bias [hidden]."""

    @abstractmethod
    def propagation(self, graph: Graph) -> dict[str, sparse.sparray]:
        """Return, by the name of each matrix W_p of a hidden layer, M_p [n, n]: the layer is sum_p M_p H W_p + b."""

    def init(self, num_features: int, num_classes: int, generator: torch.Generator) -> Weights:
        """Draw weights: Glorot-uniform hidden matrices, zero biases, and a head uniform in +-1/sqrt(hidden)."""
        weights: Weights = {}
        for name in self.layers:
            for part, shape in self.layer_shapes(self.hidden if weights else num_features).items():
                weights[f"{name}.{part}"] = glorot(shape, generator) if len(shape) == 2 else torch.zeros(shape)
        if not self.head:
            return weights
        bound = 1 / sqrt(self.hidden)
        weights["head.weight"] = uniform((self.hidden, num_classes), bound, generator)
        weights["head.bias"] = uniform((num_classes,), bound, generator)
        return weights

    def __call__(self, weights: Weights, graph: GraphTensors, random: RandomStream | None = None) -> Tensor:
        """Return logits [n, num_classes], or embeddings [n, hidden] where there is no head.

        `random` is the dropout's stream in training, None in evaluation. Where layers see more nodes than the graph's
        own n (see `GraphTensors.at_layer`), there are outputs for these, too, below the others.
        """
        h: Tensor | Matrix = graph.at_layer(0).x
        for index, name in enumerate(self.layers):
            output = self.layer(name, weights, graph.at_layer(index), h)
            if name == self.layers[-1] and not self.head:
                return output
            h = self.activated(name, output)
            if random is not None and self.dropout > 0:
                h = self._dropped(h, graph.num_nodes, random.fold(index))
        return h @ weights["head.weight"] + weights["head.bias"]

    def activated(self, name: str, output: Tensor) -> Tensor:
        """Return what follows the hidden layer `name`, before dropout: ReLU."""
        return torch.relu(output)

    def _dropped(self, h: Tensor, num_nodes: int, random: RandomStream) -> Tensor:
        """Apply dropout; rows after those of the graph's nodes have draws that do not depend on the nodes' padding."""
        own = dropout(h[:num_nodes], self.dropout, random)
        return own if len(h) == num_nodes else torch.cat([own, dropout(h[num_nodes:], self.dropout, random.fold(0))])


class GCN(Model):
    """H' = A_hat H W + b with A_hat = D^-1/2 (A + I) D^-1/2, then a head (Kipf and Welling, ICLR 2017)."""

    def layer_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return one matrix and one bias."""
        return {"weight": (width, self.hidden), "bias": (self.hidden,)}

    def layer(self, name: str, weights: Weights, graph: GraphTensors, h: Tensor | Matrix) -> Tensor:
        """Return A_hat H W + b."""
        return graph.normalized_adjacency @ (h @ weights[f"{name}.weight"]) + weights[f"{name}.bias"]

    def propagation(self, graph: Graph) -> dict[str, sparse.sparray]:
        """Return A_hat."""
        return {"weight": normalized_adjacency(graph)}


class SAGE(Model):
    """H' = H W_self + (D^-1 A) H W_neighbour + b, then a head (Hamilton et al., NeurIPS 2017, mean)."""

    def layer_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the matrices of a node itself and of its neighbours' mean, and one bias."""
        return {"self.weight": (width, self.hidden), "neighbor.weight": (width, self.hidden), "bias": (self.hidden,)}

    def layer(self, name: str, weights: Weights, graph: GraphTensors, h: Tensor | Matrix) -> Tensor:
        """Return H W_self + (D^-1 A) H W_neighbour + b."""
        own = h @ weights[f"{name}.self.weight"] + weights[f"{name}.bias"]
        return own + graph.mean_adjacency @ (h @ weights[f"{name}.neighbor.weight"])

    def propagation(self, graph: Graph) -> dict[str, sparse.sparray]:
        """Return I and D^-1 A."""
        return {"self.weight": sparse.eye_array(graph.num_nodes), "neighbor.weight": mean_adjacency(graph)}


class NormalizedSAGE(SAGE):
    """SAGE whose last hidden layer is divided by each node's length, instead of ReLU (Hamilton et al., algorithm 1)."""

    def activated(self, name: str, output: Tensor) -> Tensor:
        """Return ReLU, or after the last layer h / ||h||."""
        if name != self.layers[-1]:
            return super().activated(name, output)
        return output * (output.square().sum(dim=-1, keepdim=True) + 1e-12).rsqrt()


class MLP(Model):
    """H' = H W + b, then a head: a classifier that sees no edges."""

    def layer_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return one matrix and one bias."""
        return {"weight": (width, self.hidden), "bias": (self.hidden,)}

    def layer(self, name: str, weights: Weights, graph: GraphTensors, h: Tensor | Matrix) -> Tensor:
        """Return H W + b."""
        return h @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def propagation(self, graph: Graph) -> dict[str, sparse.sparray]:
        """Return I."""
        return {"weight": sparse.eye_array(graph.num_nodes)}


MODELS: dict[str, type[Model]] = {"gcn": GCN, "sage": SAGE, "mlp": MLP}


def dropout(h: Tensor, probability: float, random: RandomStream) -> Tensor:
    """Zero each entry with `probability` and divide the others by the probability of staying."""
    return h * random.keep(tuple(h.shape), 1 - probability) / (1 - probability)


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    """Return `shape` draws, uniform in -bound..bound."""
    return (torch.rand(shape, generator=generator) * 2 - 1) * bound


def glorot(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return a matrix, uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio, AISTATS 2010, eq. 16)."""
    return uniform(shape, sqrt(6 / (shape[0] + shape[1])), generator)
