"""CNFGNN (Meng, Rambhatla, Liu, Cross-Node Federated Graph Neural Network for Spatio-Temporal Data Modeling, KDD 2021).

Exchange: set-up as in `gru_local`, and zeros as first embeddings that nobody sends; in a round (1) the participants'
trained weights come up, (2) their mean goes down to all and the encodings of all training windows come up, (3) in each
server epoch, embeddings of a minibatch of windows go down and their gradients come up, (4) the final embeddings of all
training windows go down. Readings, and the loss, never leave a client; the server's links never leave the server.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from fedgraph_sim.algorithms.nn.graph_network import Links
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.algorithms.nn.seq2seq import Sequences, Weights, drawn_truth, sequences
from fedgraph_sim.algorithms.split_forecaster import SplitForecaster, detached
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.arrays import to_device
from fedgraph_sim.engine.federation import CPU, Federation, sample
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for


class Cnfgnn(SplitForecaster):
    """Alternating training of the clients' encoders and decoders and of the server's graph network (algorithms 1, 2).

    The clients' models are trained with fixed embeddings for `local_epochs` (R_c), and averaged; the graph network with
    fixed clients for `server_epochs` (R_s). With ``training="split"`` both are trained together, by split learning
    (Singh et al., 2019): of each minibatch encodings go up, embeddings down, their gradients up and those of the
    encodings down. A client that does not answer in the server's phase adds nothing to the graph network's gradient;
    its neighbours still see its encodings.
    """

    summary: ClassVar[str] = "time series: GRUs at the sensors, a graph network at the server (Meng et al., 2021)"
    has_global_model: ClassVar[bool] = False

    name: Literal["cnfgnn"] = "cnfgnn"
    server_lr: float = Field(0.001, gt=0, description="learning rate of Adam for the graph network")
    server_batch: int = Field(
        48, ge=1, description="windows of a minibatch of the graph network", json_schema_extra={"unit": "windows"}
    )
    server_epochs: int = Field(
        1,
        ge=1,
        description="passes of the graph network over all windows in a round (R_s)",
        json_schema_extra={"unit": "epochs"},
    )
    training: Literal["alternating", "split"] = Field(
        "alternating", description="clients and server by turns, or together by plain split learning"
    )
    average: bool = Field(True, description="average the clients' models in each round; false: each keeps its own")
    server_fraction: float = Field(
        1.0, gt=0, le=1, description="share of the clients that answer in a round's server phase, at least one"
    )

    @model_validator(mode="after")
    def _split_learning_averages_nothing(self) -> Self:
        if self.training == "split" and self.average:
            raise ValueError("training=split trains models of the clients' own; set average=false")
        return self

    @property
    def graph_optimizer(self) -> Adam:
        """The optimiser of the server's half."""
        return Adam(lr=self.server_lr)

    def setup(self, fed: Federation) -> Tree:
        """Draw both halves."""
        generator = torch.Generator().manual_seed(seed_for(fed.seed, "graph network"))
        network = self.graph_network.init(generator)
        return super().setup(fed) | {"network": network, "moments": self.graph_optimizer.init(network)}

    def first_state(self, client: Client, weights: Weights) -> Tree:
        """Begin with embeddings of zeros."""
        embeddings = torch.zeros(len(client.series.train), self.hidden, device=client.series.device)
        state = super().first_state(client, weights) | {"embeddings": embeddings}
        if self.training == "split":
            nothing = {name: torch.zeros_like(leaf) for name, leaf in weights.items()}
            state |= {"gradients": nothing, "windows": torch.zeros(1, dtype=torch.int32)}
            state |= {"optimizer": self.optimizer.init(weights)}
        return state

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Train the clients' half, then the server's; or both together."""
        if self.training == "split":
            return self.split_round(fed, server)
        weights = server["weights"]
        trained = fed.call(self.train, clients=self.participants(fed, server))
        if self.average:
            weights = trained.mean("weights", by=torch.ones(len(trained)))
        message = weights if self.average else None
        replies = fed.call(self.encode, message, clients=seen_clients(fed, server))
        phase = self.server_phase(fed, server, replies.clients)
        encodings = replies.stack("encodings").to(fed.device)
        network, moments = server_half(server, fed.device)
        for windows in phase.minibatches(encodings.shape[1], self.server_batch, self.server_epochs):
            network, moments = self.server_step(fed, phase, network, moments, encodings, windows)
        embeddings = self.embeddings(network, encodings, phase.links)
        fed.call_each(self.receive, {"embeddings": embeddings}, clients=phase.clients)
        return server | {"weights": weights} | to_device({"network": network, "moments": moments}, CPU)

    def server_phase(self, fed: Federation, server: Tree, clients: Sequence[int] | None = None) -> "ServerPhase":
        """Return who takes part in the server's phase, all seen clients or `clients`, with the links among them."""
        clients = seen_clients(fed, server) if clients is None else clients
        seed = seed_for(fed.seed, "server phase")
        answering = sample(len(clients), fraction=self.server_fraction, seed=seed, round=fed.round)
        assert fed.task.client_graph is not None, "the sensors' links are known"
        return ServerPhase(
            clients=tuple(clients),
            answering=answering,
            links=Links.of(fed.task.client_graph[list(clients)][:, list(clients)], fed.device),
            generator=torch.Generator().manual_seed(seed_for(fed.seed, "windows", fed.round)),
        )

    def server_step(
        self, fed: Federation, phase: "ServerPhase", network: Weights, moments: Tree, encodings: Tensor, windows: Tensor
    ) -> tuple[Weights, Tree]:
        """Return the graph network after one step: embeddings down, their gradients up, back through the network."""
        leaves = detached(network)
        embeddings = self.graph_network(leaves, encodings[:, windows], phase.links)
        answering = list(phase.answering)
        replies = fed.call_each(
            self.judge,
            {"embeddings": embeddings.detach()[answering], "windows": windows.int().expand(len(answering), -1)},
            clients=[phase.clients[at] for at in answering],
        )
        gradient = replies.stack("gradient").to(fed.device) / len(replies)
        answering = [phase.clients.index(client) for client in replies.clients]
        gradients = torch.autograd.grad(embeddings[answering], list(leaves.values()), gradient, allow_unused=True)
        return self._stepped(network, moments, leaves, gradients)

    def _stepped(
        self, network: Weights, moments: Tree, leaves: Weights, gradients: Sequence[Tensor | None]
    ) -> tuple[Weights, Tree]:
        # The last block's global value is of no use to any node and has no gradient.
        known = {
            name: torch.zeros_like(leaf) if gradient is None else gradient
            for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True)
        }
        where = torch.ones((), dtype=torch.bool, device=moments["step"].device)
        return self.graph_optimizer.update(network, known, moments, where=where)

    def embeddings(self, network: Weights, encodings: Tensor, links: Links) -> Tensor:
        """Return the embeddings [num_clients, number of windows, hidden], some windows at a time."""
        with torch.no_grad():
            parts = [
                self.graph_network(network, part, links) for part in torch.split(encodings, self.server_batch, dim=1)
            ]
        return torch.cat(parts, dim=1)

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

    def split_round(self, fed: Federation, server: Tree) -> Tree:
        """Train both halves together for one pass over the windows."""
        phase = self.server_phase(fed, server)
        network, moments = server_half(server, fed.device)
        for windows in phase.minibatches(int(server["num_windows"]), self.batch_size, self.local_epochs):
            message = {"windows": windows.int()}
            encoded = fed.call(self.encode_batch, message, clients=phase.clients)
            if encoded.clients != phase.clients:
                phase = self.server_phase(fed, server, encoded.clients)
            leaves = detached(network)
            received = encoded.stack("encodings").detach().to(fed.device).requires_grad_()
            embeddings = self.graph_network(leaves, received, phase.links)
            replies = fed.call_each(self.decode_batch, {"embeddings": embeddings.detach()}, clients=phase.clients)
            own = [phase.clients.index(client) for client in replies.clients]
            *gradients, back = torch.autograd.grad(
                embeddings[own],
                [*leaves.values(), received],
                replies.stack("gradient").to(fed.device),
                allow_unused=True,
            )
            mean = [part if part is None else part / len(replies) for part in gradients]
            network, moments = self._stepped(network, moments, leaves, mean)
            fed.call_each(self.learn_batch, {"gradient": back[own]}, clients=replies.clients)
        return server | to_device({"network": network, "moments": moments}, CPU)

    @client_step(batched=True)
    def encode_batch(self, client: Client, message: Tree) -> Tree:
        """Split learning: return the encodings of a minibatch, and keep in mind which it is."""
        client.state = client.state | {"windows": message["windows"]}
        rows = self._batch_rows(client)
        return {"encodings": self.network.encode(client.state["weights"], rows.inputs)[0]}

    @client_step(batched=True)
    def decode_batch(self, client: Client, message: Tree) -> Tree:
        """Split learning: return the gradient of the embeddings, and keep that of the own weights for fixed ones."""
        state, rows = client.state, self._batch_rows(client)
        is_given = drawn_truth(client.random, len(rows.steps), state["batches"], self.sampling_decay)

        def loss(weights: Weights, embedding: Tensor) -> Tensor:
            return self.loss(self.forecast_with(weights, rows, embedding, is_given), rows)

        gradients, gradient = torch.func.grad(loss, argnums=(0, 1))(state["weights"], message["embeddings"])
        client.state = state | {"gradients": gradients, "batches": state["batches"] + 1}
        return {"gradient": gradient}

    @client_step(batched=True)
    def learn_batch(self, client: Client, message: Tree) -> Tree:
        """Split learning: add what comes back through the graph network to the own encodings, and do one step."""
        state, rows = client.state, self._batch_rows(client)
        pull: Callable[[Tensor], tuple[Weights]]
        _, pull = torch.func.vjp(lambda own: self.network.encode(own, rows.inputs)[0], state["weights"])  # type: ignore[misc]
        gradients = {name: leaf + pull(message["gradient"])[0][name] for name, leaf in state["gradients"].items()}
        where = client.series.is_seen.any()
        weights, moments = self.optimizer.update(state["weights"], gradients, state["optimizer"], where=where)
        client.state = state | {"weights": weights, "optimizer": moments}
        return None

    def _batch_rows(self, client: Client) -> Sequences:
        return sequences(client.series, client.series.train[client.state["windows"].long()], client.public)

    def ask_for_scores(self, fed: Federation, server: Tree) -> Replies:
        """Take encodings of validation and test, send embeddings, and let every client judge itself.

        Validation knows no more than training does, the seen sensors and the links among them; the test knows all.
        """
        held_out = fed.call(self.encode_held_out, server["weights"] if self.average else None)
        assert fed.task.client_graph is not None, "the sensors' links are known"
        phase, links = self.server_phase(fed, server), Links.of(fed.task.client_graph, fed.device)
        val, test = to_device([held_out.stack("val"), held_out.stack("test")], fed.device)
        (network, _), seen = server_half(server, fed.device), list(phase.clients)
        embeddings = {"val": torch.zeros_like(val), "test": self.embeddings(network, test, links)}
        embeddings["val"][seen] = self.embeddings(network, val[seen], phase.links)
        return fed.call_each(self.evaluate, embeddings)

    @client_step(batched=True)
    def encode_held_out(self, client: Client, weights: Weights | None) -> Tree:
        """Return the encodings of the windows of validation and test, with the averaged weights if there are such."""
        if weights is not None:
            client.state = client.state | {"weights": weights}
        own, series = client.state["weights"], client.series
        return {
            "val": self.encode_windows(client, own, series.val),
            "test": self.encode_windows(client, own, series.test),
        }

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Tree) -> Tree:
        """Return the errors of the own model with the embeddings received."""
        weights, embeddings = client.state["weights"], torch.cat([message["val"], message["test"]])

        def predict(rows: Sequences, places: Tensor) -> Tensor:
            return self.forecast_with(weights, rows, embeddings[places])

        return self.scores(client, predict)


def server_half(server: Tree, device: torch.device) -> tuple[Weights, Tree]:
    """Return the graph network and its moments where they are trained."""
    half = to_device({"network": server["network"], "moments": server["moments"]}, device)
    return half["network"], half["moments"]


def seen_clients(fed: Federation, server: Tree) -> list[int]:
    """Return the clients that take part at all."""
    return [client for client in fed.clients if server["is_seen"][client]]


@dataclass(frozen=True, eq=False)
class ServerPhase:
    """One round's server phase: its clients, the places among them of those who answer, and the links among them."""

    clients: tuple[int, ...]
    answering: tuple[int, ...]
    links: Links
    generator: torch.Generator

    def minibatches(self, num_windows: int, size: int, epochs: int) -> Iterator[Tensor]:
        """Yield the numbers of the windows of each minibatch, in a new order in each epoch."""
        for _ in range(epochs):
            yield from torch.split(torch.randperm(num_windows, generator=self.generator), size)
