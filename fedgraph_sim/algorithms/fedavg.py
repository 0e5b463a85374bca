"""FedAvg (McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017).

Exchange: set-up, the initial weights go down and each client's number of training nodes comes up; in a round, the
server's weights go down to the participants, and their trained weights come up.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.node_classifier import NodeClassifier
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree


class FedAvg(NodeClassifier):
    """w <- sum_k n_k w_k / sum_k n_k over the participants (algorithm 1), n_k by `weighting`."""

    summary: ClassVar[str] = "average of the clients' weights each round (McMahan et al., 2017)"

    name: Literal["fedavg"] = "fedavg"
    weighting: Literal["num_train", "uniform"] = Field(
        "num_train",
        description="weight of a client in the average: its number of training nodes or links, or the same for all",
    )

    def setup(self, fed: Federation) -> Tree:
        """Draw the initial weights and learn the clients' numbers of training nodes or links."""
        weights = self.initial_weights(fed)
        sizes = fed.call(self.start, weights).stack("num_train")
        return {"weights": weights, "client_weights": self._client_weights(sizes)}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Broadcast, train, average."""
        replies = fed.call(self.train, server["weights"], clients=fed.sample())
        share = server["client_weights"][list(replies.clients)]
        return server | {"weights": replies.mean("weights", by=share)}

    @client_step(batched=True)
    def train(self, client: Client, weights: Weights) -> Tree:
        """Train the received weights on the own subgraph."""
        return {"weights": self.fit(client, weights)}

    def global_model(self, server: Tree) -> Tree:
        """Return the averaged weights."""
        return server["weights"]

    def _client_weights(self, num_train: Tensor) -> Tensor:
        return num_train.double() if self.weighting == "num_train" else torch.ones(len(num_train)).double()
