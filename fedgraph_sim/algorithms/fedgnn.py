"""FedGNN (Wu et al., FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation, 2021), for nodes.

Exchange: set-up, as in FedAvg, and the server learns which nodes several clients hold and the links of these. In a
round the weights go down and the embeddings of wanted neighbours come up; those that a client lacks go down to it, and
its trained weights come up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.nn.expansion import ExpandedGraph, expanded, expansion
from fedgraph_sim.algorithms.nn.models import Weights, dropout
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.sparse import Matrix
from fedgraph_sim.engine.tree import Tree


class FedGnn(FedAvg):
    """FedAvg on subgraphs that are expanded by embeddings of neighbours which other clients hold.

    FedGNN's clients are users with links to items. Users who link to the same item, which a third party finds out by
    the item's number, get each other's embeddings and join them to the item in their own graphs. FED-PUB (Baek et al.,
    2023) compares itself with that method on subgraphs and leaves the details open. The reading here: a node v that
    several clients hold is what the item is there. Every neighbour w of v that another client has and a client lacks is
    joined to v in the latter's graph. The embedding of w is the output, after ReLU, of the first layer with the round's
    weights, as the mean over those holders of w who take part (or did so last); it enters the second layer, and no
    gradient goes back to its owners. An expanded graph is normalised like any other, its new edges in both directions.

    Where clients have no node in common, as in disjoint partitions, nobody finds a neighbour, and this is FedAvg.
    FedGNN's noise on gradients and its made-up items, which protect and cost accuracy, are left out.
    """

    summary: ClassVar[str] = "FedAvg with embeddings of neighbours that other clients hold (Wu et al., 2021)"

    name: Literal["fedgnn"] = "fedgnn"  # type: ignore[assignment]
    task: Literal["node"] = Field("node", description="what is predicted: a node's class")

    def setup(self, fed: Federation) -> Tree:
        """Do as FedAvg does, tell every client which neighbours it lacks, and gather embeddings for the first time."""
        server = super().setup(fed)
        nodes = list(fed.call(self.announce).stack("node"))
        links = fed.call_each(self.report, {"node": held_by_several(nodes)})
        plan = expansions(nodes, list(links.values()))
        fed.call_each(self.expand, plan.messages)
        server |= plan.server | {"embedding": torch.zeros(plan.num_wanted, self.hidden)}
        return self.gathered(server, fed.call(self.embed))

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Broadcast, exchange embeddings, train, average."""
        participants = fed.sample()
        server = self.gathered(server, fed.call(self.embed, server["weights"], clients=participants))
        lacked = rows_of_each(server["lacked"])
        messages = {"embedding": [server["embedding"][lacked[client]] for client in participants]}
        fed.call_each(self.receive, messages, clients=participants)
        replies = fed.call(self.train, clients=participants)
        share = server["client_weights"][list(replies.clients)]
        return server | {"weights": replies.mean("weights", by=share)}

    def gathered(self, server: Tree, replies: Replies) -> Tree:
        """Replace each node's embedding by the mean of those that came; where none came the old one stays."""
        old, wanted = server["embedding"], rows_of_each(server["wanted"])
        rows = torch.cat([wanted[client] for client in replies.clients])
        sums = torch.zeros_like(old).index_add(0, rows, torch.cat(list(replies.stack("embedding"))))
        counts = torch.bincount(rows, minlength=len(old))[:, None]
        return server | {"embedding": torch.where(counts > 0, sums / counts.clamp(min=1), old)}

    @client_step
    def announce(self, client: Client, message: None) -> Tree:
        """Return the numbers of the own nodes."""
        return {"node": client.graph.node_id}

    @client_step
    def report(self, client: Client, message: Tree) -> Tree:
        """Return the links of those own nodes that others hold too: both ends' numbers, and the weight."""
        number, graph = client.graph.node_id, client.graph
        assert number is not None
        assert graph.adjacency is not None
        links = graph.adjacency.tocoo()
        chosen = torch.isin(number, message["node"]).cpu().numpy()[links.row] & (links.row != links.col)
        node, neighbor = (number[torch.from_numpy(ends[chosen]).to(number)] for ends in (links.row, links.col))
        return {"node": node, "neighbor": neighbor, "weight": torch.from_numpy(links.data[chosen]).float()}

    @client_step
    def expand(self, client: Client, message: Tree) -> Tree:
        """Join the lacked neighbours to the own graph, and take note of the nodes whose embeddings others want."""
        graph = client.graph
        assert graph.adjacency is not None
        arrays = {name: leaf.cpu().numpy() for name, leaf in message.items()}
        edges, scales = expansion(graph.adjacency, arrays["node"], arrays["neighbor"], arrays["weight"])
        device = graph.y.device
        client.state = client.state | {
            "edges": {name: torch.from_numpy(leaf).to(device) for name, leaf in edges.items()},
            "scales": {name: torch.from_numpy(leaf).to(device) for name, leaf in scales.items()},
            "outside": torch.zeros(len(np.unique(edges["neighbor"])), self.hidden, device=device),
            "is_wanted": torch.zeros_like(graph.train_mask).index_fill(0, message["wanted"], True),
        }
        return None

    @client_step
    def embed(self, client: Client, weights: Weights | None) -> Tree:
        """Take the weights received, if any; return what the first layer makes of the nodes that others want."""
        if weights is not None:
            client.state = client.state | {"weights": weights}
        graph, is_wanted = client.graph, client.state["is_wanted"][: client.graph.num_nodes]
        return {"embedding": self.hidden_layer(0, client.state["weights"], graph, graph.x)[is_wanted]}

    @client_step
    def receive(self, client: Client, message: Tree) -> Tree:
        """Keep the embeddings of the neighbours that the own graph lacks."""
        client.state = client.state | {"outside": message["embedding"]}
        return None

    @client_step(batched=True)
    def train(self, client: Client, message: None) -> Tree:  # type: ignore[override]
        """Train the weights received last on the expanded subgraph."""
        client.graph = self.expanded_graph(client)
        return {"weights": self.fit(client, client.state["weights"])}

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return loss and accuracy of the own model on the expanded graph, or of `message` on the graph as it is."""
        if message is None:
            client.graph = self.expanded_graph(client)
        return super().evaluate(client, message)

    def expanded_graph(self, client: Client) -> ExpandedGraph:
        """Return the graph of a client that has been told of its expansion."""
        state = client.state
        return expanded(client.graph, state["edges"], state["scales"], state["outside"])

    def logits(self, weights: Weights, graph: GraphTensors, random: RandomStream | None = None) -> Tensor:
        """Return logits [n, num_classes]; in an expanded graph the embeddings received join at the second layer."""
        if not isinstance(graph, ExpandedGraph):
            return super().logits(weights, graph, random)
        h = self.hidden_layer(0, weights, graph, graph.x, random)
        h = self.hidden_layer(1, weights, graph.second, torch.cat([h, graph.outside]), random)
        return h[: graph.num_nodes] @ weights["head.weight"] + weights["head.bias"]

    def hidden_layer(
        self,
        index: int,
        weights: Weights,
        graph: GraphTensors,
        h: Tensor | Matrix,
        random: RandomStream | None = None,
    ) -> Tensor:
        """Return the output of hidden layer `index`, after ReLU, and after dropout where there is a stream for it."""
        h = torch.relu(self.network.layer(f"conv{index + 1}", weights, graph, h))
        return h if random is None or self.dropout == 0 else dropout(h, self.dropout, random.fold(index))


def held_by_several(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Return those of each client's nodes that another client holds as well."""
    _, place, count = torch.unique(torch.cat(list(nodes)), return_inverse=True, return_counts=True)
    is_shared = (count[place] > 1).split([len(own) for own in nodes])
    return [own[shared] for own, shared in zip(nodes, is_shared, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who gives and gets which of `num_wanted` embeddings: what to tell the clients, and what the server keeps."""

    messages: Tree
    server: Tree
    num_wanted: int


def expansions(nodes: Sequence[Tensor], links: Sequence[Tree]) -> Plan:
    """Match `links`, ends and weights as numbers of nodes, with the `nodes` of each of K clients.

    A client lacks a neighbour of its node if another client reports the link and it does not hold the neighbour. In the
    messages `node` and `wanted` are positions among the client's own nodes, and `neighbor` positions among those that
    it lacks. `wanted` and `lacked` of the server are rows of the table of all embeddings.
    """
    numbers, own = np.unique(np.concatenate([part.cpu().numpy() for part in nodes]), return_inverse=True)
    client = np.repeat(np.arange(len(nodes)), [len(part) for part in nodes])
    position = np.concatenate([np.arange(len(part)) for part in nodes])
    found = _known_links(numbers, links)[own].tocoo()  # of each client's nodes, one row each
    is_held = np.isin(client[found.row] * len(numbers) + found.col, client * len(numbers) + own)
    who, neighbor, weight = found.row[~is_held], found.col[~is_held], found.data[~is_held]
    table, row = np.unique(neighbor, return_inverse=True)
    is_wanted = np.isin(own, table)

    def of_each(values: NDArray[Any], owner: NDArray[np.int64]) -> list[Tensor]:
        counts = np.bincount(owner, minlength=len(nodes))
        return [torch.from_numpy(part) for part in np.split(values, counts.cumsum()[:-1])]

    lacked = [torch.unique(part, return_inverse=True) for part in of_each(row, client[who])]
    messages = {
        "node": of_each(position[who], client[who]),
        "neighbor": [place for _, place in lacked],
        "weight": of_each(weight.astype(np.float32), client[who]),
        "wanted": of_each(position[is_wanted], client[is_wanted]),
    }
    wanted = of_each(np.searchsorted(table, own[is_wanted]), client[is_wanted])
    server = {"wanted": _joined(wanted), "lacked": _joined([rows for rows, _ in lacked])}
    return Plan(messages=messages, server=server, num_wanted=len(table))


def rows_of_each(joined: Tree) -> tuple[Tensor, ...]:
    """Return each client's rows of the table of embeddings."""
    rows: tuple[Tensor, ...] = joined["rows"].split(joined["count"].tolist())
    return rows


def _joined(rows: Sequence[Tensor]) -> Tree:
    return {"rows": torch.cat(list(rows)), "count": torch.tensor([len(part) for part in rows])}


def _known_links(numbers: NDArray[np.int64], links: Sequence[Tree]) -> sparse.csr_array:
    """Return the weight of each link that a client has reported, by the places of its ends in `numbers`."""
    node, neighbor, weight = (
        np.concatenate([part[key].cpu().numpy() for part in links]) for key in ("node", "neighbor", "weight")
    )
    ends = np.stack([np.searchsorted(numbers, node), np.searchsorted(numbers, neighbor)])
    ends, first = np.unique(ends, axis=1, return_index=True)  # several clients may report one link
    return sparse.csr_array((weight[first], (ends[0], ends[1])), shape=(len(numbers), len(numbers)))
