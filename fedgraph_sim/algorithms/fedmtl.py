"""Federated multi-task learning with a graph: sensors that are linked are held near to each other.

Smith et al., Federated Multi-Task Learning, NeurIPS 2017, with the sensors' graph as the known relation of the tasks,
which is how Meng et al., KDD 2021, compare with it.

Exchange: set-up as in `gru_local`; in a round, the weighted sum of its neighbours' weights and the sum of the links'
weights go down to every participant, and its trained weights come up.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.forecaster import Forecaster
from fedgraph_sim.algorithms.nn.seq2seq import Weights
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.client_axis import put, weighted_sum
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree, tree_map


class FedMtl(Forecaster):
    """Client i minimises F_i(w_i) + strength/2 sum_j a_ij ||w_i - w_j||^2, w_j as it was at the last exchange.

    Over all clients the penalty is strength tr(W^T L W) / 2 with the Laplacian L of the graph's symmetric part
    a_ij = (A_ij + A_ji) / 2. Its gradient, strength (d_i w_i - sum_j a_ij w_j), needs the neighbours' sum alone.
    """

    summary: ClassVar[str] = "time series: own models, held near to those of linked sensors (graph Laplacian)"
    has_global_model: ClassVar[bool] = False

    name: Literal["fedmtl"] = "fedmtl"
    strength: float = Field(0.01, ge=0, description="factor of the penalty (lambda)")
    local_epochs: int = Field(
        5,
        ge=1,
        le=100_000,
        description="passes over its windows of each participant in a round",
        json_schema_extra={"unit": "epochs"},
    )

    def setup(self, fed: Federation) -> Tree:
        """Keep every client's weights at the server."""
        server = super().setup(fed)
        weights = tree_map(lambda leaf: leaf.expand(len(fed.clients), *leaf.shape).clone(), server.pop("weights"))
        return server | {"weights": weights}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Send the neighbours' sums, train, keep."""
        clients = self.participants(fed, server)
        if not clients:
            return server
        links = neighbours(fed.task.client_graph, len(fed.clients))[list(clients)]
        message = {"sum": weighted_sum(server["weights"], links), "degree": links.sum(dim=1)}
        replies = fed.call_each(self.train, message, clients=clients)
        return server | {"weights": put(server["weights"], replies.clients, replies.stack("weights"))}

    @client_step(batched=True)
    def train(self, client: Client, message: Tree) -> Tree:
        """Train the own weights, held near to the neighbours'."""
        total, degree = message["sum"], message["degree"]

        def penalty(weights: Weights) -> Tensor:
            # strength/2 (d |w|^2 - 2 w . s) differs from the sum of squares by what does not depend on w.
            parts = [degree * leaf.square().sum() - 2 * (leaf * total[name]).sum() for name, leaf in weights.items()]
            return self.strength / 2 * torch.stack(parts).sum()

        return {"weights": self.fit(client, client.state["weights"], penalty=penalty)}


def neighbours(graph: sparse.csr_array | None, num_clients: int) -> Tensor:
    """Return a_ij [num_clients, num_clients] of the links between different clients, symmetric."""
    if graph is None:
        return torch.zeros(num_clients, num_clients)
    links = graph.toarray()
    links[range(num_clients), range(num_clients)] = 0
    return torch.from_numpy((links + links.T) / 2).float()
