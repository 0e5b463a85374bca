"""A forecaster in two halves: encoder and decoder where the readings are, a graph network that sees encodings alone."""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.forecaster import EVALUATED, Forecaster
from fedgraph_sim.algorithms.nn.graph_network import GraphNetwork
from fedgraph_sim.algorithms.nn.seq2seq import Seq2Seq, Sequences, Weights, sequences
from fedgraph_sim.engine.algorithm import Client


class SplitForecaster(Forecaster):
    """The decoder starts from the encoder's last state h_c,i and the embedding h_G,i that a graph network makes of all.

    Meng et al., Cross-Node Federated Graph Neural Network for Spatio-Temporal Data Modeling, KDD 2021, section 3.
    """

    hidden: int = Field(
        64,
        ge=1,
        le=65_536,
        description="width of an encoding and of an embedding; the decoder's state has both",
        json_schema_extra={"unit": "entries"},
    )
    layers: Literal[1] = Field(1, description="layers of encoder and decoder")
    sampling_decay: float = Field(
        1000.0,
        gt=0,
        le=1e9,
        description="scheduled sampling: after i batches the decoder reads the truth with probability"
        " k / (k + exp(i / k)); this is k",
        json_schema_extra={"unit": "batches"},
    )
    graph_hidden: int = Field(
        256, ge=1, le=65_536, description="width of the graph network's layers", json_schema_extra={"unit": "entries"}
    )
    graph_out: int = Field(
        128, ge=1, le=65_536, description="width of what a block puts out", json_schema_extra={"unit": "entries"}
    )

    @property
    def network(self) -> Seq2Seq:
        """The clients' half as a function of weights."""
        return Seq2Seq(encoder=self.hidden, decoder=2 * self.hidden)

    @property
    def graph_network(self) -> GraphNetwork:
        """The server's half as a function of weights."""
        return GraphNetwork(size=self.hidden, width=self.graph_hidden, out=self.graph_out)

    def decode(
        self, weights: Weights, encoding: Tensor, embedding: Tensor, rows: Sequences, is_given: Tensor | None = None
    ) -> Tensor:
        """Return the normalised forecast [horizon, R] from encoding and embedding, both [R, hidden]."""
        return self.network.decode(weights, torch.cat([encoding, embedding], dim=-1)[None], rows.steps, is_given)

    def forecast_with(
        self, weights: Weights, rows: Sequences, embedding: Tensor, is_given: Tensor | None = None
    ) -> Tensor:
        """Return the normalised forecast [horizon, R] with embeddings [R, hidden]."""
        return self.decode(weights, self.network.encode(weights, rows.inputs)[0], embedding, rows, is_given)

    def encode_windows(self, client: Client, weights: Weights, starts: Tensor) -> Tensor:
        """Return the encodings [number of windows, hidden] of one sensor's windows, some at a time."""
        if not len(starts):
            return torch.zeros(0, self.hidden, device=starts.device)
        parts = [sequences(client.series, chosen, client.public) for chosen in torch.split(starts, EVALUATED)]
        return torch.cat([self.network.encode(weights, rows.inputs)[0] for rows in parts])


def detached(weights: Weights) -> dict[str, Any]:
    """Return the weights as leaves of a computation that is to be differentiated."""
    return {name: leaf.detach().requires_grad_() for name, leaf in weights.items()}
