"""What all algorithms that train one graph model share: parameters, local training and evaluation."""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import MODELS, Model, Weights
from fedgraph_sim.algorithms.nn.objectives import OBJECTIVES, Objective
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.engine.algorithm import Algorithm, Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for

Penalty = Callable[[Weights], Tensor]


class NodeClassifier(Algorithm):
    """Full-batch training by Adam on a client's own subgraph: of a classifier of nodes, or of a predictor of links."""

    task: Literal["node", "link"] = Field("node", description="what is predicted: a node's class, or who is linked")
    model: Literal["gcn", "sage", "mlp"] = Field("gcn", description="two layers of this kind and a linear head")
    hidden: int = Field(128, ge=1, le=65_536, description="width of the hidden layers")
    dropout: float = Field(0.5, ge=0, lt=1, description="probability that a hidden entry is dropped in training")
    lr: float = Field(0.01, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(1e-6, ge=0, description="factor of the L2 penalty that Adam adds to the gradient")
    local_epochs: int = Field(
        1,
        ge=1,
        le=100_000,
        description="full-batch steps of each participant in a round",
        json_schema_extra={"unit": "epochs"},
    )
    optimizer_state: Literal["keep", "reset"] = Field(
        "keep", description="whether a client keeps Adam's moments from round to round, or starts each round afresh"
    )

    @property
    def objective(self) -> Objective:
        """What the task asks of the model's outputs."""
        return OBJECTIVES[self.task]

    @property
    def metric(self) -> str:
        """The score of the task: accuracy, or the area under the ROC curve."""
        return self.objective.metric

    @property
    def predicts_links(self) -> bool:
        """Whether the task is link prediction."""
        return self.objective.predicts_links

    @property
    def network(self) -> Model:
        """The model as a function of weights."""
        return MODELS[self.model](hidden=self.hidden, dropout=self.dropout, head=not self.predicts_links)

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
        """Take `weights` as the own model, and tell the server how many training nodes, or links, there are."""
        client.state = {"weights": weights, "optimizer": self.optimizer.init(weights)}
        return {"num_train": self.objective.train_mask(client.graph).sum()}

    def logits(self, weights: Weights, graph: GraphTensors, random: RandomStream | None = None) -> Tensor:
        """Return the model's logits, or a link predictor's embeddings; `random` is the dropout's stream in training."""
        return self.network(weights, graph, random)

    def batches(self, client: Client, random: RandomStream) -> Iterator[tuple[GraphTensors, RandomStream]]:
        """Yield, for each step of an epoch, the graph with the examples that it trains on, and its stream."""
        yield client.graph, random

    def fit(self, client: Client, weights: Weights, penalty: Penalty | None = None) -> Weights:
        """Train `weights` for the local epochs on the task's loss (plus `penalty`), and keep the result as own model.

        A client with nothing to train on returns what it received: weight decay alone must not move a model.
        """
        optimizer, objective = self.optimizer, self.objective
        moments = client.state["optimizer"] if self.optimizer_state == "keep" else optimizer.init(weights)

        def loss(weights: Weights, graph: GraphTensors, random: RandomStream) -> Tensor:
            value = objective.loss(self.logits(weights, graph, random), graph, random.fold(-1))  # layers count from 0
            return value if penalty is None else value + penalty(weights)

        for epoch in range(self.local_epochs):
            for graph, random in self.batches(client, client.random.fold(epoch)):
                gradients = torch.func.grad(loss)(weights, graph, random)
                where = objective.train_mask(graph).any()
                weights, moments = optimizer.update(weights, gradients, moments, where=where)
        client.state = client.state | {"weights": weights, "optimizer": moments}
        return weights

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return loss and score on the training, validation and test nodes or links, of `message` or the own model."""
        weights = client.state["weights"] if message is None else message
        return self.objective.scores(self.logits(weights, client.graph), client.graph)
