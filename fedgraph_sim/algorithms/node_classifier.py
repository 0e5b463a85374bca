"""What all algorithms that train node classifiers share: parameters, local training and evaluation."""

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.losses import cross_entropy, scores
from fedgraph_sim.algorithms.nn.models import MODELS, Model, Weights
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.engine.algorithm import Algorithm, Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for

Penalty = Callable[[Weights], Tensor]


class NodeClassifier(Algorithm):
    """Full-batch training of a node classifier by Adam on a client's own subgraph."""

    model: Literal["gcn", "sage", "mlp"] = Field("gcn", description="two layers of this kind and a linear head")
    hidden: int = Field(128, ge=1, description="width of the hidden layers")
    dropout: float = Field(0.5, ge=0, lt=1, description="probability that a hidden entry is dropped in training")
    lr: float = Field(0.01, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(1e-6, ge=0, description="factor of the L2 penalty that Adam adds to the gradient")
    local_epochs: int = Field(
        1,
        ge=1,
        description="full-batch steps of each participant in a round",
        json_schema_extra={"unit": "epochs"},
    )
    optimizer_state: Literal["keep", "reset"] = Field(
        "keep", description="whether a client keeps Adam's moments from round to round, or starts each round afresh"
    )

    @property
    def network(self) -> Model:
        """The model as a function of weights."""
        return MODELS[self.model](hidden=self.hidden, dropout=self.dropout)

    @property
    def optimizer(self) -> Adam:
        """The optimiser as a function of weights and gradients."""
        return Adam(lr=self.lr, weight_decay=self.weight_decay)

    def initial_weights(self, fed: Federation) -> Weights:
        """Return the weights that the server draws before the first round."""
        generator = torch.Generator().manual_seed(seed_for(fed.seed, "weights"))
        return self.network.init(fed.task.num_features, fed.task.num_classes, generator)

    @client_step
    def start(self, client: Client, weights: Weights) -> Tree:
        """Take `weights` as the own model, and tell the server how many training nodes there are."""
        client.state = {"weights": weights, "optimizer": self.optimizer.init(weights)}
        return {"num_train": client.graph.train_mask.sum()}

    def logits(self, weights: Weights, graph: GraphTensors, random: RandomStream | None = None) -> Tensor:
        """Return the model's logits [n, num_classes]; `random` is the dropout's stream in training."""
        return self.network(weights, graph, random)

    def fit(self, client: Client, weights: Weights, penalty: Penalty | None = None) -> Weights:
        """Train `weights` for the local epochs on cross-entropy (plus `penalty`), and keep the result as own model.

        A client without training nodes returns what it received: weight decay alone must not move a model.
        """
        optimizer, graph = self.optimizer, client.graph
        moments = client.state["optimizer"] if self.optimizer_state == "keep" else optimizer.init(weights)

        def loss(weights: Weights, epoch: int) -> Tensor:
            logits = self.logits(weights, graph, client.random.fold(epoch))
            value = cross_entropy(logits, graph.y, graph.train_mask)
            return value if penalty is None else value + penalty(weights)

        for epoch in range(self.local_epochs):
            gradients = torch.func.grad(loss)(weights, epoch)
            weights, moments = optimizer.update(weights, gradients, moments, where=graph.train_mask.any())
        client.state = client.state | {"weights": weights, "optimizer": moments}
        return weights

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return loss and accuracy on the training, validation and test nodes, of `message` or the own model."""
        weights = client.state["weights"] if message is None else message
        graph = client.graph
        masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
        return scores(self.logits(weights, graph), graph.y, masks)
