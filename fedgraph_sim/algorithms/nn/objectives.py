"""What a model is trained for: what its outputs mean, their loss, and how they are scored."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.losses import auc, cross_entropy, link_losses, scores
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.links import Links
from fedgraph_sim.engine.random_stream import RandomStream


class Objective(ABC):
    """What is wanted of a model's outputs for the n nodes of a client's graph, logits or embeddings."""

    metric: ClassVar[str]
    """The score, better when larger."""
    predicts_links: ClassVar[bool]
    """Whether the examples are links instead of nodes."""

    @abstractmethod
    def train_mask(self, graph: GraphTensors) -> Tensor:
        """Return which of the client's examples are for training."""

    @abstractmethod
    def loss(self, outputs: Tensor, graph: GraphTensors, random: RandomStream) -> Tensor:
        """Return the mean loss of the training examples, 0 with zero gradient where there is none."""

    @abstractmethod
    def scores(self, outputs: Tensor, graph: GraphTensors) -> dict[str, Tensor]:
        """Return ``<role>_loss`` and ``<role>_<metric>`` as [sum, count] over the examples of each role."""


class NodeClassification(Objective):
    """The outputs are the logits of a node's class."""

    metric = "accuracy"
    predicts_links = False

    def train_mask(self, graph: GraphTensors) -> Tensor:
        """Return which nodes are for training."""
        return graph.train_mask

    def loss(self, outputs: Tensor, graph: GraphTensors, random: RandomStream) -> Tensor:
        """Return the cross-entropy; nothing is drawn."""
        return cross_entropy(outputs, graph.y, graph.train_mask)

    def scores(self, outputs: Tensor, graph: GraphTensors) -> dict[str, Tensor]:
        """Return losses and accuracies."""
        masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
        return scores(outputs, graph.y, masks)


class LinkPrediction(Objective):
    """The outputs are embeddings z; two nodes are linked with probability sigmoid((cos(z_u, z_v) - 1/2) / 0.1).

    Sources: embeddings that a graph network learns by telling links from other pairs, Kipf and Welling, Variational
    Graph Auto-Encoders, 2016; the cosine with a temperature of 0.1, Chen et al., A Simple Framework for Contrastive
    Learning of Visual Representations, ICML 2020. The plain inner product of the former depends on the embeddings'
    lengths, which a single step by Adam from averaged weights changes far too much.
    """

    metric = "auc"
    predicts_links = True

    def train_mask(self, graph: GraphTensors) -> Tensor:
        """Return which links are for training."""
        return _links(graph).train_mask

    def loss(self, outputs: Tensor, graph: GraphTensors, random: RandomStream) -> Tensor:
        """Return the binary cross-entropy of the training links and of as many pairs without a link, drawn anew."""
        links = _links(graph)
        linked, unlinked = link_logits(outputs, links.linked, links.draw(random))
        count = links.train_mask.sum()
        return link_losses(linked, unlinked, links.train_mask).sum() / (2 * count).clamp(min=1)

    def scores(self, outputs: Tensor, graph: GraphTensors) -> dict[str, Tensor]:
        """Return losses, and areas under the ROC curve, of the links and of the same pairs without a link every time.

        An area's sum and count are p times the area, and p, for p links.
        """
        links = _links(graph)
        linked, unlinked = link_logits(outputs, links.linked, links.unlinked)
        pairs = {}
        for name, mask in {"train": links.train_mask, "val": links.val_mask, "test": links.test_mask}.items():
            count = mask.sum().to(outputs.dtype)
            pairs[f"{name}_loss"] = torch.stack([link_losses(linked, unlinked, mask).sum(), 2 * count])
            pairs[f"{name}_auc"] = torch.stack([auc(linked, unlinked, mask) * count, count])
        return pairs


OBJECTIVES: dict[str, Objective] = {"node": NodeClassification(), "link": LinkPrediction()}
"""The objectives by the name of the task."""


def link_logits(z: Tensor, *pairs: Tensor) -> list[Tensor]:
    """Return (e_u . e_v - 1/2) / 0.1 [m] of the columns (u, v) of each of `pairs` [2, m], e = z / sqrt(|z|^2 + 10^-4).

    The length 0.01 under the root is small beside those of embeddings. Without it the gradient along z would be nothing
    but rounding errors, out of which Adam makes whole steps, and boundless near 0.
    """
    unit = z * (z.square().sum(dim=-1, keepdim=True) + 1e-4).rsqrt()
    return [((unit[low] * unit[high]).sum(dim=-1) - 0.5) / 0.1 for low, high in pairs]


def _links(graph: GraphTensors) -> Links:
    assert graph.links is not None, "the graph of a client that predicts links has them"
    return graph.links
