"""CNFGNN (Meng, Rambhatla, Liu, Cross-Node Federated Graph Neural Network for Spatio-Temporal Data Modeling, KDD 2021).

Exchange: set-up as in `gru_local`, and zeros as first embeddings that nobody sends; in a round (1) the participants'
trained weights come up, (2) their mean goes down to all and the encodings of all training windows come up, (3) in each
server epoch, embeddings of a minibatch of windows go down and their gradients come up, (4) the final embeddings of all
training windows go down. Readings, and the loss, never leave a client; the server's links never leave the server.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.seq2seq import Sequences, Weights, sequences
from fedgraph_sim.algorithms.relayed_forecaster import RelayedForecaster, ServerPhase, seen_clients, server_half
from fedgraph_sim.algorithms.split_forecaster import detached
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.arrays import to_device
from fedgraph_sim.engine.federation import CPU, Federation, sample
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for


class Cnfgnn(RelayedForecaster):
    """Alternating training of the clients' encoders and decoders and of the server's graph network (algorithms 1, 2).

    The clients' models are trained with fixed embeddings for `local_epochs` (R_c), and averaged; the graph network with
    fixed clients for `server_epochs` (R_s). A client that does not answer in the server's phase adds nothing to the
    graph network's gradient; its neighbours still see its encodings.
    """

    summary: ClassVar[str] = "time series: GRUs at the sensors, a graph network at the server (Meng et al., 2021)"

    name: Literal["cnfgnn"] = "cnfgnn"
    server_epochs: int = Field(
        1,
        ge=1,
        le=100_000,
        description="passes of the graph network over all windows in a round (R_s)",
        json_schema_extra={"unit": "epochs"},
    )
    average: bool = Field(True, description="average the clients' models in each round; false: each keeps its own")
    server_fraction: float = Field(
        1.0, gt=0, le=1, description="share of the clients that answer in a round's server phase, at least one"
    )

    def first_state(self, client: Client, weights: Weights) -> Tree:
        """Begin with embeddings of zeros."""
        embeddings = torch.zeros(len(client.series.train), self.hidden, device=client.series.device)
        return super().first_state(client, weights) | {"embeddings": embeddings}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Train the clients' half, then the server's."""
        trained = fed.call(self.train, clients=self.participants(fed, server))
        if self.average:
            server = server | {"weights": trained.mean("weights", by=torch.ones(len(trained)))}
        replies = fed.call(self.encode, self.shared_weights(server), clients=seen_clients(fed, server))
        phase = self.server_phase(fed, server, replies.clients)
        encodings = replies.stack("encodings").to(fed.device)
        network, moments = server_half(server, fed.device)
        for windows in phase.minibatches(encodings.shape[1], self.server_batch, self.server_epochs):
            network, moments = self.server_step(fed, phase, network, moments, encodings, windows)
        embeddings = self.embeddings(network, encodings, phase.links)
        fed.call_each(self.receive, {"embeddings": embeddings}, clients=phase.clients)
        return server | to_device({"network": network, "moments": moments}, CPU)

    def shared_weights(self, server: Tree) -> Weights | None:
        """Return the average of the clients' models."""
        weights: Weights = server["weights"]
        return weights if self.average else None

    def answering(self, fed: Federation, phase: ServerPhase) -> list[int]:
        """Return the places, among the clients of the server's phase, of those who answer in this round."""
        seed = seed_for(fed.seed, "server phase")
        return list(sample(len(phase.clients), fraction=self.server_fraction, seed=seed, round=fed.round))

    def server_step(
        self, fed: Federation, phase: ServerPhase, network: Weights, moments: Tree, encodings: Tensor, windows: Tensor
    ) -> tuple[Weights, Tree]:
        """Return the graph network after one step: embeddings down, their gradients up, back through the network."""
        leaves = detached(network)
        embeddings = self.graph_network(leaves, encodings[:, windows], phase.links)
        answering = self.answering(fed, phase)
        replies = fed.call_each(
            self.judge,
            {"embeddings": embeddings.detach()[answering], "windows": windows.int().expand(len(answering), -1)},
            clients=[phase.clients[at] for at in answering],
        )
        gradient = replies.stack("gradient").to(fed.device) / len(replies)
        answering = [phase.clients.index(client) for client in replies.clients]
        gradients = torch.autograd.grad(embeddings[answering], list(leaves.values()), gradient, allow_unused=True)
        return self.stepped(network, moments, leaves, gradients)

    @client_step(batched=True)
    def train(self, client: Client, message: None) -> Tree:
        """Train the own model with the embeddings as they are."""
        embeddings = client.state["embeddings"]

        def forecast(weights: Weights, *, rows: Sequences, places: Tensor, is_given: Tensor) -> Tensor:
            return self.forecast_with(weights, rows, embeddings[places], is_given)

        weights = self.fit(client, client.state["weights"], forecast=forecast)
        return {"weights": weights} if self.average else None

    @client_step(batched=True)
    def encode(self, client: Client, weights: Weights | None) -> Tree:
        """Take the averaged weights, if there are such, as own model; return the encodings of all training windows."""
        if weights is not None:
            client.state = client.state | {"weights": weights}
        return {"encodings": self.encode_windows(client, client.state["weights"], client.series.train)}

    @client_step(batched=True)
    def judge(self, client: Client, message: Tree) -> Tree:
        """Return the gradient of the own loss in the minibatch with respect to the embeddings received."""
        weights = client.state["weights"]
        rows = sequences(client.series, client.series.train[message["windows"].long()], client.public)
        encoding = self.network.encode(weights, rows.inputs)[0]

        def loss(embedding: Tensor) -> Tensor:
            return self.loss(self.decode(weights, encoding, embedding, rows), rows)

        return {"gradient": torch.func.grad(loss)(message["embeddings"])}

    @client_step(batched=True)
    def receive(self, client: Client, message: Tree) -> Tree:
        """Keep the embeddings of all training windows."""
        client.state = client.state | {"embeddings": message["embeddings"]}
        return None
