"""FedSage (Zhang et al., Subgraph Federated Learning with Missing Neighbor Generation, NeurIPS 2021, section 4).

Exchange: set-up, the initial weights go down and each client's number of training nodes comes up; in a round, the
server's weights go down to the participants, and their trained weights come up.
"""

from typing import ClassVar, Literal

from pydantic import Field

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.graphsage import GraphSage


class FedSage(GraphSage, FedAvg):
    """FedAvg of a GraphSAGE: w <- (1/M) sum_i w_i over the participants, of which each has the same weight.

    Clients know the links among their own nodes only: see `fedsage_plus` for those to other clients.
    """

    summary: ClassVar[str] = "FedAvg of a GraphSAGE with sampled neighbours (Zhang et al., 2021)"

    name: Literal["fedsage"] = "fedsage"  # type: ignore[assignment]
    weighting: Literal["num_train", "uniform"] = Field(
        "uniform", description="weight of a client in the average: its number of training nodes, or the same for all"
    )
