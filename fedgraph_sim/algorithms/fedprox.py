"""FedProx (Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020).

Exchange: as in FedAvg; only the local objective differs.
"""

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.tree import Tree


class FedProx(FedAvg):
    """FedAvg whose clients minimise F_k(w) + mu/2 ||w - w_received||^2 (eq. 2).

    At the first local step w equals w_received and the term's gradient is zero: it acts from ``local_epochs = 2`` on.
    """

    summary: ClassVar[str] = "FedAvg with a proximal term in the local objective (Li et al., 2020)"

    name: Literal["fedprox"] = "fedprox"  # type: ignore[assignment]
    mu: float = Field(0.01, ge=0, description="factor of the proximal term; acts only with local_epochs of at least 2")

    @client_step(batched=True)
    def train(self, client: Client, weights: Weights) -> Tree:
        """Train the received weights on the own subgraph, held near to where they came from."""
        return {"weights": self.fit(client, weights, penalty=lambda moved: self.proximal_term(moved, weights))}

    def proximal_term(self, weights: Weights, received: Weights) -> Tensor:
        """Return mu/2 times the squared distance of all weights from the received ones."""
        distances = [(leaf - received[name]).square().sum() for name, leaf in weights.items()]
        total: Tensor = sum(distances[1:], start=distances[0])
        return self.mu / 2 * total
