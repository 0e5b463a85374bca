"""FedAvg of perceptrons without a graph, the reference below GFL-APPNP.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017; as compared in
Wu et al., Graph Federated Learning with Hidden Representation Sharing, 2022.

Exchange: set-up, numbers of samples; in a round, the server's weights go down, those of whoever trains come up.
"""

from typing import ClassVar, Literal

import torch

from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.sample_classifier import SampleClassifier
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree


class FedMlp(SampleClassifier):
    """W <- mean of W_k over the participants that train, each after I passes over its samples from W."""

    summary: ClassVar[str] = "average of perceptrons that see no edges; gradient descent"

    name: Literal["fedmlp"] = "fedmlp"

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Broadcast, train, average."""
        trains = (server["counts"]["num_train"] > 0).tolist()
        clients = [client for client in fed.sample() if trains[client]]
        fed.publish(server["weights"], clients=clients)
        replies = fed.call(self.train, clients=clients)
        return server | {"weights": replies.mean("weights", by=torch.ones(len(replies)))}

    @client_step(batched=True)
    def train(self, client: Client, message: None) -> Tree:
        """Train the server's weights on the own samples."""
        return {"weights": self.descend(client, client.public, self.loss_gradient)}

    def ask_for_scores(self, fed: Federation, server: Tree) -> Replies:
        """Give the averaged weights to everybody."""
        fed.publish(server["weights"])
        return fed.call(self.evaluate)

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return loss and accuracy of the server's weights on the own samples."""
        weights = client.public if message is None else message
        return self.scores(self.encoder(weights, client.graph.x), client.graph)

    def global_model(self, server: Tree) -> Tree:
        """Return the averaged weights."""
        return server["weights"]
