"""Figures of a partition: sizes, what was lost, how much the clients differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.subgraph import Subgraph

MAX_CLIENTS_OF_CUT = 500

Counts = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PartitionInfo:
    """What `describe` finds; one entry per client in every tuple, edges counted as directed entries.

    `num_nodes`, `num_edges`: of the whole graph. `isolated`: nodes without a neighbour inside their client.
    `class_counts`: nodes of each class. `edges_lost`: entries of which no client holds both ends. `cut`[i][j]: lost
    entries from a node of client i to a node of client j; None for more than 500 clients.
    """

    dataset: str
    partition: str
    num_clients: int
    num_features: int
    num_classes: int
    num_nodes: int
    num_edges: int
    nodes: Counts
    edges: Counts
    train: Counts
    val: Counts
    test: Counts
    isolated: Counts
    class_counts: tuple[Counts, ...]
    edges_lost: int
    cut: tuple[Counts, ...] | None

    def __post_init__(self) -> None:
        """Refuse figures of another number of clients or classes."""
        tables = (self.nodes, self.edges, self.train, self.val, self.test, self.isolated, self.class_counts)
        if any(len(table) != self.num_clients for table in tables):
            raise ValueError(f"the figures are not those of {self.num_clients} clients")
        if any(len(counts) != self.num_classes for counts in self.class_counts):
            raise ValueError(f"the figures are not those of {self.num_classes} classes")

    @property
    def example(self) -> str:
        """What a training example is, in sentences."""
        return "node"

    @property
    def sizes(self) -> Counts:
        """Nodes and edges of each client."""
        return tuple(nodes + edges for nodes, edges in zip(self.nodes, self.edges, strict=True))

    @property
    def summary(self) -> str:
        """The graph in half a sentence."""
        return (
            f"{counted(self.num_nodes, 'node')}, {counted(self.num_edges, 'directed edge')}, "
            f"{counted(self.num_classes, 'class')}"
        )

    @property
    def division(self) -> str:
        """The partition in half a sentence."""
        lost = f"{100 * self.edges_lost / self.num_edges:.1f} % of the edges lost" if self.num_edges else "no edges"
        if 0 < self.num_edges == self.edges_lost:
            lost = "all edges between clients"
        return f"{clients_by(self.num_clients, self.partition)}, {lost}"

    @property
    def columns(self) -> dict[str, Counts]:
        """Figures of each client, by heading."""
        present = tuple(sum(count > 0 for count in counts) for counts in self.class_counts)
        sizes = {"nodes": self.nodes, "edges": self.edges, "train": self.train, "val": self.val, "test": self.test}
        return sizes | {"classes": present, "isolated": self.isolated}

    @property
    def notes(self) -> tuple[str, ...]:
        """All of it in two lines."""
        share = f" ({100 * self.edges_lost / self.num_edges:.1f} %)" if self.num_edges else ""
        return (
            f"{self.dataset}, {counted(self.num_nodes, 'node')}, {counted(self.num_edges, 'directed edge')}, "
            f"{counted(self.num_features, 'feature')}, {counted(self.num_classes, 'class')}; "
            f"{clients_by(self.num_clients, self.partition)}",
            f"edges lost: {self.edges_lost}{share} ; largest over mean size: {self.size_balance:.3f} ; "
            f"label divergence: {self.label_divergence:.3f}",
        )

    @property
    def matrices(self) -> dict[str, NDArray[np.float64]]:
        """The clients' label similarity and, where they were counted, the missing edges between them.

        Missing edges are directed entries of the whole graph that no client holds.
        """
        values = {"label_similarity": self.label_similarity}
        return values if self.cut is None else values | {"missing_edges": np.array(self.cut, np.float64)}

    @property
    def size_balance(self) -> float:
        """Largest number of nodes of a client over the mean number; 1 where all are equal."""
        return max(self.nodes) * self.num_clients / sum(self.nodes)

    @property
    def label_divergence(self) -> float:
        """Mean Jensen-Shannon divergence, base 2, between the label distributions of two clients, in [0, 1].

        ``JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2`` with ``H(p) = -sum p log2 p``, over all pairs of clients that
        have labelled nodes; 0 where there is no pair. Source: Lin, Divergence Measures Based on the Shannon Entropy,
        1991.
        """
        counts = np.array(self.class_counts, dtype=np.float64).reshape(self.num_clients, self.num_classes)
        counts = counts[counts.sum(axis=1) > 0]
        if len(counts) < 2:
            return 0.0
        shares = counts / counts.sum(axis=1, keepdims=True)
        entropy = _entropy(shares)
        total = 0.0
        for i in range(len(shares) - 1):
            mixed = _entropy((shares[i] + shares[i + 1 :]) / 2)
            total += float((mixed - (entropy[i] + entropy[i + 1 :]) / 2).sum())
        return max(total / (len(shares) * (len(shares) - 1) / 2), 0.0)

    @property
    def label_similarity(self) -> NDArray[np.float64]:
        """Cosine of the label distributions of two clients [num_clients, num_clients]; 0 for one without labels."""
        counts = np.array(self.class_counts, dtype=np.float64).reshape(self.num_clients, self.num_classes)
        norm = np.linalg.norm(counts, axis=1, keepdims=True)
        directions = np.divide(counts, norm, out=np.zeros_like(counts), where=norm > 0)
        similarity: NDArray[np.float64] = directions @ directions.T
        return similarity


def clients_by(num_clients: int, partition: str) -> str:
    """Return how many clients there are, and by which partitioner."""
    return f"{counted(num_clients, 'client')} by {partition}"


class Survey:
    """Gathers a partition's figures while its clients' subgraphs pass by."""

    def __init__(self, whole: Graph) -> None:
        self._whole = whole
        self._held = np.zeros(whole.num_edges, dtype=bool)
        self._clients: list[dict[str, int | Counts]] = []
        self._members: list[NDArray[np.int64]] = []

    def add(self, nodes: NDArray[np.int64], part: Subgraph) -> None:
        """Take note of the next client: its nodes in the whole graph, and its subgraph."""
        graph = part.graph
        self._held[part.entries] = True
        self._members.append(nodes)
        linked = np.unique(graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]])
        self._clients.append(
            {
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "train": graph.count(Role.TRAIN),
                "val": graph.count(Role.VAL),
                "test": graph.count(Role.TEST),
                "isolated": graph.num_nodes - len(linked),
                "class_counts": tuple(np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes).tolist()),
            }
        )

    def finish(self, *, dataset: str, partition: str) -> PartitionInfo:
        """Return the figures of all clients that were added."""
        names = ("nodes", "edges", "train", "val", "test", "isolated", "class_counts")
        per_client = {name: tuple(client[name] for client in self._clients) for name in names}
        return PartitionInfo(
            dataset=dataset,
            partition=partition,
            num_clients=len(self._clients),
            num_features=self._whole.num_features,
            num_classes=self._whole.num_classes,
            num_nodes=self._whole.num_nodes,
            num_edges=self._whole.num_edges,
            edges_lost=int(np.count_nonzero(~self._held)),
            cut=self._cut(),
            **per_client,  # type: ignore[arg-type]  # names and types are those of the loop above
        )

    def _cut(self) -> tuple[Counts, ...] | None:
        if len(self._members) > MAX_CLIENTS_OF_CUT:
            return None
        lost = self._whole.edge_index[:, ~self._held]
        shape = (self._whole.num_nodes, self._whole.num_nodes)
        entries = sparse.csr_array((np.ones(lost.shape[1], dtype=np.int64), (lost[0], lost[1])), shape=shape)
        owner = membership(self._members, self._whole.num_nodes)
        return tuple(tuple(row) for row in (owner.T @ entries @ owner).toarray().tolist())


def membership(members: Sequence[NDArray[np.int64]], num_nodes: int) -> sparse.csr_array:
    """Return the 0/1 matrix [num_nodes, num_clients] of who holds which node."""
    nodes = np.concatenate(members)
    clients = np.repeat(np.arange(len(members)), [len(part) for part in members])
    ones = np.ones(len(nodes), dtype=np.int64)
    return sparse.csr_array((ones, (nodes, clients)), shape=(num_nodes, len(members)))


def _entropy(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy: NDArray[np.float64] = -(shares * logs).sum(axis=-1)
    return entropy
