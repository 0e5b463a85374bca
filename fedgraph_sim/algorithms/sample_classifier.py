"""What the algorithms share whose clients classify samples by a perceptron: local data, local steps, evaluation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.nn.objectives import NodeClassification
from fedgraph_sim.algorithms.nn.perceptron import Activation, Perceptron
from fedgraph_sim.engine.algorithm import Algorithm, Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.sparse import SparseMatrix
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Some of a client's samples: `x` [n, num_features], `y` [n], and `share` [n], what each counts in a mean.

    Padding has share 0.
    """

    x: Tensor
    y: Tensor
    share: Tensor


Gradient = Callable[[Weights, Samples], Weights]


class SampleClassifier(Algorithm):
    """A perceptron that is trained by plain gradient descent on a client's samples, the nodes of its graph.

    A client's samples are those that train or, where none does, all that it has: these have features only.
    """

    hidden: int = Field(64, ge=1, le=65_536, description="width of the hidden layers")
    num_layers: int = Field(2, ge=1, le=64, description="layers of the perceptron, the last one included")
    activation: Activation = Field("relu", description="what lies between two layers")
    bias: bool = Field(False, description="whether layers have biases")
    lr: float = Field(0.2, gt=0, description="learning rate of gradient descent")
    local_epochs: int = Field(
        10,
        ge=1,
        le=100_000,
        description="passes of each participant over its samples in a round (I)",
        json_schema_extra={"unit": "epochs"},
    )
    batch_size: int = Field(
        0,
        ge=0,
        description="samples of a step; what is left over of a pass is dropped; 0: all samples in one step",
        json_schema_extra={"unit": "samples"},
    )

    @property
    def encoder(self) -> Perceptron:
        """The model as a function of weights."""
        return Perceptron(hidden=self.hidden, num_layers=self.num_layers, activation=self.activation, bias=self.bias)

    def initial_weights(self, fed: Federation) -> Weights:
        """Return the weights that the server draws before the first round."""
        generator = torch.Generator().manual_seed(seed_for(fed.seed, "weights"))
        return self.encoder.init(fed.task.num_features, fed.task.num_classes, generator)

    def setup(self, fed: Federation) -> Tree:
        """Learn how many samples the clients have, and let them prepare their own."""
        counts = fed.call(self.count).tree
        fed.call(self.prepare, {"num_rows": counts["num_samples"].max()})
        return {"weights": self.initial_weights(fed), "counts": counts}

    @client_step
    def count(self, client: Client, message: None) -> Tree:
        """Return the number of samples, and how many nodes have each role."""
        graph = client.graph
        return {
            "num_samples": torch.tensor(len(_own_samples(graph))),
            "num_train": graph.train_mask.sum(),
            "num_val": graph.val_mask.sum(),
            "num_test": graph.test_mask.sum(),
        }

    @client_step
    def prepare(self, client: Client, message: Tree) -> None:
        """Put the own samples into rows, as many in every client."""
        chosen = _own_samples(client.graph)
        missing = int(message["num_rows"]) - len(chosen)
        share = torch.full((len(chosen),), 1 / max(len(chosen), 1))
        client.state = client.state | {
            "x": F.pad(_features(client.graph, chosen), (0, 0, 0, missing)),
            "y": F.pad(client.graph.y[chosen].clamp(min=0), (0, missing)),
            "share": F.pad(share.to(client.graph.y.device), (0, missing)),
        }

    def samples(self, client: Client) -> Samples:
        """Return all of a client's own samples."""
        return Samples(x=client.state["x"], y=client.state["y"], share=client.state["share"])

    def batches(self, client: Client, epoch: int) -> Iterator[Samples]:
        """Yield the samples of each step of a pass, in an order drawn anew; a last one that is not full is empty.

        A client with fewer samples than fill a batch has one step with all of them.
        """
        own = self.samples(client)
        count, size = len(own.y), self.batch_size
        if size == 0 or count <= size:
            yield own
            return
        drawn = client.random.fold(epoch).bits(count).long()
        order = (drawn + (own.share == 0) * 2**33).argsort()  # padding comes last
        for begin in range(0, count - size + 1, size):
            chosen = order[begin : begin + size]
            real = own.share[chosen] > 0
            counts = real & (real.all() | (begin == 0))
            share = counts / counts.sum().clamp(min=1)
            yield Samples(x=own.x[chosen], y=own.y[chosen], share=share.to(own.share.dtype))

    def descend(self, client: Client, weights: Weights, gradient: Gradient) -> Weights:
        """Return the weights after the local epochs of steps along `gradient`."""
        for epoch in range(self.local_epochs):
            for samples in self.batches(client, epoch):
                step = gradient(weights, samples)
                weights = {name: torch.sub(leaf, step[name], alpha=self.lr) for name, leaf in weights.items()}
        return weights

    def loss_gradient(self, weights: Weights, samples: Samples) -> Weights:
        """Return the gradient of the mean cross-entropy of softmax(h(x))."""

        def loss(weights: Weights) -> Tensor:
            losses = F.cross_entropy(self.encoder(weights, samples.x), samples.y, reduction="none")
            return samples.share @ losses

        gradient: Weights = torch.func.grad(loss)(weights)
        return gradient

    def scores(self, logits: Tensor, graph: GraphTensors) -> Tree:
        """Return losses and accuracies of all samples by their roles."""
        return NodeClassification().scores(logits, graph)


def _own_samples(graph: GraphTensors) -> Tensor:
    train = graph.train_mask.nonzero().flatten()
    return train if len(train) else torch.arange(graph.num_nodes, device=graph.y.device)


def _features(graph: GraphTensors, chosen: Tensor) -> Tensor:
    if isinstance(graph.x, Tensor):
        return graph.x[chosen]
    assert isinstance(graph.x, SparseMatrix)
    return torch.from_numpy(graph.x.rows[chosen.numpy(force=True)].toarray()).float().to(chosen.device)
