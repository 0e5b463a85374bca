"""A forecaster in two halves at two parties: encoders and decoders at the sensors, the graph network at the server.

Encodings go up and embeddings down; neither readings nor losses leave a client, nor links the server.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.graph_network import Links
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.algorithms.nn.seq2seq import Sequences, Weights
from fedgraph_sim.algorithms.split_forecaster import SplitForecaster
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.arrays import to_device
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for


class RelayedForecaster(SplitForecaster):
    """What the ways to train both halves share: the server's half, its optimiser, and how the whole is judged."""

    has_global_model: ClassVar[bool] = False

    server_lr: float = Field(0.001, gt=0, description="learning rate of Adam for the graph network")
    server_batch: int = Field(
        48, ge=1, description="windows of a minibatch of the graph network", json_schema_extra={"unit": "windows"}
    )

    @property
    def graph_optimizer(self) -> Adam:
        """The optimiser of the server's half."""
        return Adam(lr=self.server_lr)

    def setup(self, fed: Federation) -> Tree:
        """Draw both halves."""
        generator = torch.Generator().manual_seed(seed_for(fed.seed, "graph network"))
        network = self.graph_network.init(generator)
        return super().setup(fed) | {"network": network, "moments": self.graph_optimizer.init(network)}

    def shared_weights(self, server: Tree) -> Weights | None:
        """Return what clients take for their own weights before they are judged, if they are sent any."""
        return None

    def server_phase(self, fed: Federation, server: Tree, clients: Sequence[int] | None = None) -> "ServerPhase":
        """Return who takes part in the server's phase, all seen clients or `clients`, with the links among them."""
        clients = seen_clients(fed, server) if clients is None else clients
        assert fed.task.client_graph is not None, "the sensors' links are known"
        return ServerPhase(
            clients=tuple(clients),
            links=Links.of(fed.task.client_graph[list(clients)][:, list(clients)], fed.device),
            generator=torch.Generator().manual_seed(seed_for(fed.seed, "windows", fed.round)),
        )

    def stepped(
        self, network: Weights, moments: Tree, leaves: Weights, gradients: Sequence[Tensor | None]
    ) -> tuple[Weights, Tree]:
        """Return the graph network after one step of its optimiser."""
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

    def ask_for_scores(self, fed: Federation, server: Tree) -> Replies:
        """Take encodings of validation and test, send embeddings, and let every client judge itself.

        Validation knows no more than training does, the seen sensors and the links among them; the test knows all.
        """
        held_out = fed.call(self.encode_held_out, self.shared_weights(server))
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
    """One round's server phase: its clients, the links among them, and the draws of its minibatches."""

    clients: tuple[int, ...]
    links: Links
    generator: torch.Generator

    def minibatches(self, num_windows: int, size: int, epochs: int) -> Iterator[Tensor]:
        """Yield the numbers of the windows of each minibatch, in a new order in each epoch."""
        for _ in range(epochs):
            yield from torch.split(torch.randperm(num_windows, generator=self.generator), size)
