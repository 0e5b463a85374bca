"""Perceptrons, one per client, without any exchange: the lowest reference.

Exchange: set-up, numbers of samples come up and the initial weights go down; a round, nothing.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.sample_classifier import SampleClassifier
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree


class Mlp(SampleClassifier):
    """W_k goes on descending on the own samples of client k; who has none that train keeps the initial weights."""

    summary: ClassVar[str] = "a perceptron per client; no communication; gradient descent"
    has_global_model: ClassVar[bool] = False

    name: Literal["mlp"] = "mlp"

    def setup(self, fed: Federation) -> Tree:
        """Give all clients the same initial weights."""
        server = super().setup(fed)
        fed.call(self.start, server["weights"])
        return {"counts": server["counts"]}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Let the participants train."""
        trains = (server["counts"]["num_train"] > 0).tolist()
        fed.call(self.train, clients=[client for client in fed.sample() if trains[client]])
        return server

    @client_step
    def start(self, client: Client, weights: Tree) -> None:
        """Take `weights` as the own model."""
        client.state = client.state | {"weights": weights}

    @client_step(batched=True)
    def train(self, client: Client, message: None) -> None:
        """Go on training the own model."""
        client.state = client.state | {"weights": self.descend(client, client.state["weights"], self.loss_gradient)}

    @client_step(batched=True)
    def evaluate(self, client: Client, message: None) -> Tree:
        """Return loss and accuracy of the own model on the own samples."""
        return self.scores(self.encoder(client.state["weights"], client.graph.x), client.graph)
