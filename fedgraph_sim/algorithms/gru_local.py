"""Forecasting alone: every sensor trains its own encoder and decoder, and nothing is exchanged but the scale.

Exchange: set-up, the initial weights and then mean and spread of all training readings go down, and each client's
count, sum and sum of squares of its readings come up; a round, nothing.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.forecaster import Forecaster
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree


class GruLocal(Forecaster):
    """Each sensor for itself ("GRU, local" of Meng et al., KDD 2021); one that is unseen keeps its initial weights."""

    summary: ClassVar[str] = "time series: each sensor trains a GRU encoder and decoder alone"
    has_global_model: ClassVar[bool] = False

    name: Literal["gru_local"] = "gru_local"

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Let the participants train."""
        fed.call(self.train, clients=self.participants(fed, server))
        return server

    @client_step(batched=True)
    def train(self, client: Client, message: None) -> Tree:
        """Go on training the own model."""
        self.fit(client, client.state["weights"])
        return None
