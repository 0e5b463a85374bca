"""What the FedSage family shares: a GraphSAGE that trains on batches of nodes with sampled neighbours."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field, field_validator
from torch import Tensor

from fedgraph_sim.algorithms.nn.mending import layered
from fedgraph_sim.algorithms.nn.models import SAGE, Model, NormalizedSAGE, Weights
from fedgraph_sim.algorithms.nn.neighbors import neighbor_lists
from fedgraph_sim.algorithms.nn.ordering import shuffled_ranks
from fedgraph_sim.algorithms.node_classifier import NodeClassifier
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.tree import Tree


class GraphSage(NodeClassifier):
    """K layers h_v <- ReLU(W (h_v || mean of h_u over sampled neighbours u) + b), and a linear head.

    Source: Hamilton et al., Inductive Representation Learning on Large Graphs, NeurIPS 2017; with the head, and, unless
    `normalize` says so, without the normalisation of h_v, of which the FedSage paper says nothing. An epoch is one pass
    over the training nodes.

    Training draws `sizes` neighbours with replacement, anew for every step, node and layer; evaluation takes all. Every
    layer is computed for all nodes of a client, so that two nodes of a batch see the same draw of a common neighbour.
    """

    task: Literal["node"] = Field("node", description="what is predicted: a node's class")
    model: Literal["sage"] = Field("sage", description="GraphSAGE with mean aggregation, a layer for each of `sizes`")
    sizes: tuple[int, ...] = Field(
        (5, 5),
        min_length=1,
        max_length=64,
        description="neighbours that training draws for a node in each layer, the input's first; 0: all of them",
        json_schema_extra={"unit": "neighbours"},
    )
    batch_size: int = Field(
        64, ge=0, description="training nodes of a step; 0: all of them", json_schema_extra={"unit": "nodes"}
    )
    normalize: bool = Field(
        False, description="whether the last hidden layer is divided by its length instead of ReLU, as in public code"
    )
    hidden: int = Field(64, ge=1, le=65_536, description="width of the hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="probability that a hidden entry is dropped in training")
    lr: float = Field(0.001, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(0.0, ge=0, description="factor of the L2 penalty that Adam adds to the gradient")
    local_epochs: int = Field(
        1,
        ge=1,
        le=100_000,
        description="passes of each participant over its training nodes in a round",
        json_schema_extra={"unit": "epochs"},
    )

    @field_validator("sizes")
    @classmethod
    def _from_all_to_many(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not 0 <= min(value) <= max(value) <= 10_000:
            raise ValueError("must be numbers from 0 to 10000")
        return value

    @property
    def network(self) -> Model:
        """The model as a function of weights."""
        kind = NormalizedSAGE if self.normalize else SAGE
        return kind(hidden=self.hidden, dropout=self.dropout, num_layers=len(self.sizes))

    @client_step
    def start(self, client: Client, weights: Weights) -> Tree:
        """Take `weights` as the own model, and list the neighbours; tell the number of training nodes."""
        reply = super().start(client, weights)
        assert client.graph.adjacency is not None
        lists = neighbor_lists(client.graph.adjacency, client.graph.y.device)
        client.state = client.state | {"neighbors": lists}
        return reply

    def batches(self, client: Client, random: RandomStream) -> Iterator[tuple[GraphTensors, RandomStream]]:
        """Yield a graph for each batch of training nodes, whose neighbours, and no others, are drawn for it."""
        graph = client.graph
        size = self.batch_size or max(graph.num_train, 1)
        rank = shuffled_ranks(graph.train_mask, random)
        for number in range(-(-graph.num_train // size)):
            in_batch = graph.train_mask & (rank >= number * size) & (rank < (number + 1) * size)
            stream = random.fold(number)
            seen = self.seen(client, self.sizes, stream.fold(-2))
            yield replace(seen, train_mask=in_batch), stream

    def seen(self, client: Client, sizes: tuple[int, ...], random: RandomStream | None) -> GraphTensors:
        """Return the graph that the layers see: the own one, with neighbours drawn by `random`."""
        return layered(client.graph, client.state["neighbors"], sizes, random)

    def logits(self, weights: Weights, graph: GraphTensors, random: RandomStream | None = None) -> Tensor:
        """Return logits [n, num_classes]; `random` is the dropout's stream in training."""
        return self.network(weights, graph, random)[: graph.num_nodes]
