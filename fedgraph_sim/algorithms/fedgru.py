"""FedAvg of forecasting models ("GRU + FedAvg" of Meng et al., Cross-Node Federated Graph Neural Network, KDD 2021).

Exchange: set-up as in `gru_local`; in a round, the server's weights go down to the participants and their trained
weights come up.
"""

from typing import ClassVar, Literal

import torch

from fedgraph_sim.algorithms.forecaster import Forecaster
from fedgraph_sim.algorithms.nn.seq2seq import Weights
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree


class FedGru(Forecaster):
    """w <- (1/K) sum_k w_k over the participants: all sensors have equally many windows, and the same weight."""

    summary: ClassVar[str] = "time series: average of the sensors' GRU encoders and decoders each round"

    name: Literal["fedgru"] = "fedgru"

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Broadcast, train, average."""
        clients = self.participants(fed, server)
        if not clients:
            return server
        replies = fed.call(self.train, server["weights"], clients=clients)
        return server | {"weights": replies.mean("weights", by=torch.ones(len(replies)))}

    @client_step(batched=True)
    def train(self, client: Client, weights: Weights) -> Tree:
        """Train the received weights on the own windows."""
        return {"weights": self.fit(client, weights)}

    def ask_for_scores(self, fed: Federation, server: Tree) -> Replies:
        """Judge the averaged model at every sensor, as the paper does."""
        return fed.call(self.evaluate, server["weights"])
