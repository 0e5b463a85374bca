"""Local training: every client trains its own model on its own subgraph, and nothing is exchanged.

Exchange: set-up, the server's initial weights go to every client; a round, nothing.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.node_classifier import NodeClassifier
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree


class Local(NodeClassifier):
    """Each client for itself: the reference that any federated method has to beat."""

    summary: ClassVar[str] = "each client trains alone; no communication"
    has_global_model: ClassVar[bool] = False
    lends_models: ClassVar[bool] = True

    name: Literal["local"] = "local"

    def setup(self, fed: Federation) -> Tree:
        """Give all clients the same initial weights."""
        fed.call(self.start, self.initial_weights(fed))
        return {}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Let the participants train."""
        fed.call(self.train, clients=fed.sample())
        return server

    @client_step(batched=True)
    def train(self, client: Client, message: None) -> Tree:
        """Go on training the own model."""
        self.fit(client, client.state["weights"])
        return None

    @client_step
    def lend(self, client: Client, message: None) -> Tree:
        """Return the own model."""
        return client.state["weights"]
