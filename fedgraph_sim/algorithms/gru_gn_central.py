"""Encoder, graph network and decoder trained as one model by one party that holds all series: a reference.

"GRU + GN" of Meng et al., KDD 2021. Exchange: none.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.nn.graph_network import Links
from fedgraph_sim.algorithms.nn.seq2seq import Sequences, Weights
from fedgraph_sim.algorithms.split_forecaster import SplitForecaster
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for

NETWORK = "network."
"""How the names of the graph network's weights begin."""


class GruGnCentral(SplitForecaster):
    """The model of `cnfgnn`, its two halves trained end to end; a minibatch is `batch_size` windows of every sensor."""

    summary: ClassVar[str] = "time series: one party trains GRUs and graph network end to end on all sensors"
    pooled: ClassVar[bool] = True
    has_global_model: ClassVar[bool] = False

    name: Literal["gru_gn_central"] = "gru_gn_central"
    batch_size: int = Field(
        48, ge=1, description="windows of a minibatch, each of all sensors", json_schema_extra={"unit": "windows"}
    )

    def initial_weights(self, fed: Federation) -> Weights:
        """Draw both halves as `cnfgnn` does."""
        generator = torch.Generator().manual_seed(seed_for(fed.seed, "graph network"))
        network = self.graph_network.init(generator)
        return super().initial_weights(fed) | {NETWORK + name: leaf for name, leaf in network.items()}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Let the one party train."""
        fed.call(self.train)
        return server

    @client_step
    def train(self, client: Client, message: None) -> Tree:
        """Go on training."""
        links = self.links(client, seen_only=True)

        def forecast(weights: Weights, *, rows: Sequences, places: Tensor, is_given: Tensor) -> Tensor:
            return self.end_to_end(weights, rows, links, is_given)

        self.fit(client, client.state["weights"], forecast=forecast)
        return None

    @client_step
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return the errors of the model."""
        num_val, links = len(client.series.val), [self.links(client, seen_only=seen) for seen in (False, True)]

        def predict(rows: Sequences, places: Tensor) -> Tensor:
            return self.end_to_end(client.state["weights"], rows, links[int(places[0]) < num_val])

        return self.scores(client, predict)

    def links(self, client: Client, *, seen_only: bool) -> Links:
        """Return all links, for the test, or those among seen sensors, for training and validation."""
        series = client.series
        seen = sparse.diags_array(series.is_seen.double().cpu().numpy())
        return Links.of((seen @ series.adjacency @ seen).tocsr() if seen_only else series.adjacency, series.device)

    def end_to_end(self, weights: Weights, rows: Sequences, links: Links, is_given: Tensor | None = None) -> Tensor:
        """Return the normalised forecast [horizon, R] of all sensors."""
        network = {name.removeprefix(NETWORK): leaf for name, leaf in weights.items() if name.startswith(NETWORK)}
        encoding = self.network.encode(weights, rows.inputs)[0]
        nodes = encoding.reshape(links.num_nodes, -1, self.hidden)
        embedding = self.graph_network(network, nodes, links).reshape(encoding.shape)
        return self.decode(weights, encoding, embedding, rows, is_given)
