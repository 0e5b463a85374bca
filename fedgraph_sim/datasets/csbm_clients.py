"""Contextual stochastic block models whose nodes are clients: the three tasks of GFL-APPNP.

Deshpande et al., Contextual Stochastic Block Models, 2018; the tasks and their sizes: Wu et al., Graph Federated
Learning with Hidden Representation Sharing, 2022, and its released code.
"""

from abc import abstractmethod
from math import log
from pathlib import Path
from statistics import NormalDist
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy import sparse

from fedgraph_sim.datasets.csbm import community_edges
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset
from fedgraph_sim.errors import ConfigError

Rng = np.random.Generator
MAX_TRIES = 1000
"""Graphs that are drawn until one has the training nodes that are wanted."""


class ClientCsbm(GraphDataset):
    """One community of N nodes, each of which is a client with one or more feature vectors, its samples.

    Class v = +-1 by a fair coin; an edge with probability (degree + lambda sqrt(degree)) / N inside a class and
    (degree - lambda sqrt(degree)) / N between classes, where lambda is `edge_signal`; a sample's features are
    sqrt(mu / N) v u + z / sqrt(p), z ~ N(0, I_p) drawn for each sample, u ~ N(0, I_p / p) once.
    """

    largest_component: bool = Field(False, description="keep only the largest weakly connected component")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")
    num_nodes: int = Field(
        200, ge=2, le=100_000, description="nodes, each a client (N)", json_schema_extra={"unit": "nodes"}
    )
    num_features: int = Field(
        100, ge=1, le=100_000, description="features of a sample (p)", json_schema_extra={"unit": "features"}
    )
    degree: float = Field(
        8.0, gt=0, le=1e6, description="expected neighbours of a node", json_schema_extra={"unit": "neighbours"}
    )
    edge_signal: float = Field(
        2.0, ge=-1e3, le=1e3, description="strength of the classes in the edges (lambda), at most sqrt(degree)"
    )
    feature_signal: float = Field(1.0, ge=0, le=1e6, description="strength of the classes in the features (mu)")
    seed: int = Field(
        -1,
        ge=-1,
        lt=2**63,
        description="seed of the graph; -1: the run's data seed, so that another seed is another graph",
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if abs(self.edge_signal) > self.degree**0.5:
            raise ValueError(f"edge_signal={self.edge_signal:g} makes a negative probability; use at most sqrt(degree)")
        if self.degree + abs(self.edge_signal) * self.degree**0.5 > self.num_nodes:
            raise ValueError(f"degree={self.degree:g} is too high for {self.num_nodes} nodes; lower it")
        return self

    def seeded(self, seed: int) -> Self:
        """Return the data set with a seed of its own."""
        return self if self.seed >= 0 else self.model_copy(update={"seed": seed})

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return a fresh sample; the same options give the same graph."""
        rng = np.random.default_rng(max(self.seed, 0))
        for _ in range(MAX_TRIES):
            v = rng.integers(0, 2, self.num_nodes)
            nodes = np.arange(self.num_nodes)
            parts = community_edges(rng, nodes, v, degree=self.degree, edge_signal=self.edge_signal)
            edges = np.concatenate(parts, axis=1)
            graph = self.with_samples(rng, v, np.concatenate([edges, edges[::-1]], axis=1))
            if graph is not None:
                return graph
        raise ConfigError(
            f"dataset.name={self.name!r}: none of {MAX_TRIES} graphs has the training nodes that are wanted; raise"
            " dataset.degree, or lower dataset.num_train"
        )

    @abstractmethod
    def with_samples(self, rng: Rng, v: NDArray[np.int64], edge_index: NDArray[np.int64]) -> Graph | None:
        """Return the clients' samples, given classes `v` [N] in 0..1 and edges; None if the graph does not do."""

    def features(self, rng: Rng, v: NDArray[np.int64]) -> NDArray[np.float32]:
        """Draw the features of one sample per entry of `v`."""
        meaning = rng.standard_normal(self.num_features) / self.num_features**0.5
        noise = rng.standard_normal((len(v), self.num_features)) / self.num_features**0.5
        signal = (self.feature_signal / self.num_nodes) ** 0.5 * np.outer(2 * v - 1, meaning)
        x: NDArray[np.float32] = (signal + noise).astype(np.float32)
        return x


class NodeRoles(ClientCsbm):
    """A task in which some nodes train, some validate and the others test.

    Those that train are connected with each other, and as many of one class as of the other.
    """

    num_train: int = Field(20, ge=1, le=100_000, description="nodes that train, half of each class")
    num_val: int = Field(20, ge=0, le=100_000, description="nodes that validate")

    @model_validator(mode="after")
    def _enough_nodes(self) -> Self:
        if self.num_train + self.num_val > self.num_nodes:
            raise ValueError(f"num_train + num_val exceeds num_nodes={self.num_nodes}; lower them")
        return self

    def roles(self, rng: Rng, v: NDArray[np.int64], edge_index: NDArray[np.int64]) -> NDArray[np.int8] | None:
        """Return the role of each node, or None where no connected set of training nodes was found."""
        train = connected_and_balanced(rng, v, edge_index, self.num_train)
        if train is None:
            return None
        role = np.full(self.num_nodes, Role.TEST, np.int8)
        role[train] = Role.TRAIN
        role[rng.permutation(np.flatnonzero(role != Role.TRAIN))[: self.num_val]] = Role.VAL
        return role


class CsbmDnc(NodeRoles):
    """Deterministic node classification: a client is a node with one feature vector; whole nodes have roles.

    Use it with ``partition.name = "node"`` and ``split.kind = "own"``.
    """

    summary: ClassVar[str] = "synthetic nodes with one feature vector each, a client each; needs no files"

    name: Literal["csbm-dnc"] = Field("csbm-dnc", description="name of the data set")

    def with_samples(self, rng: Rng, v: NDArray[np.int64], edge_index: NDArray[np.int64]) -> Graph | None:
        """Return the graph of nodes."""
        role = self.roles(rng, v, edge_index)
        if role is None:
            return None
        return _graph(self.features(rng, v), v, role, edge_index=edge_index)


class CsbmSnc(NodeRoles):
    """Stochastic node classification: a client is a node with several feature vectors and one label.

    Use it with ``partition.name = "column"`` and ``split.kind = "own"``: the samples are nodes without edges, and the
    links between the clients are given apart.
    """

    summary: ClassVar[str] = "synthetic clients with several feature vectors and one label each; needs no files"

    name: Literal["csbm-snc"] = Field("csbm-snc", description="name of the data set")
    degree: float = Field(
        10.0, gt=0, le=1e6, description="expected neighbours of a client", json_schema_extra={"unit": "neighbours"}
    )
    num_samples: int = Field(
        40, ge=1, le=100_000, description="feature vectors of a client", json_schema_extra={"unit": "samples"}
    )

    def with_samples(self, rng: Rng, v: NDArray[np.int64], edge_index: NDArray[np.int64]) -> Graph | None:
        """Return a graph of samples without edges, and the graph of clients."""
        role = self.roles(rng, v, edge_index)
        if role is None:
            return None
        client = np.repeat(np.arange(self.num_nodes), self.num_samples)
        return _graph(self.features(rng, v[client]), v[client], role[client], client=client, links=edge_index)


class CsbmSc(ClientCsbm):
    """Supervised classification: a client is a node with several feature vectors, each with a label of its own.

    The label of a sample of client k is +1 with probability `majority` where v_k = +1, else with 1 - `majority`, and
    takes the place of v in the sample's features. Who knows v alone is right with probability `majority`; see
    `best_accuracy` for who knows everything. Samples have roles. Use it with ``partition.name = "column"`` and
    ``split.kind = "own"``.

    That features go with the sample's label, not with the client's class, is inferred from the released results: their
    validation loss of 0.597 is below 0.611, the entropy of labels of which v is known, and their perceptrons without a
    graph are right more often, 0.61, than directions of v could make them with 500 samples, 0.53.
    """

    summary: ClassVar[str] = "synthetic clients with several labelled feature vectors each; needs no files"

    name: Literal["csbm-sc"] = Field("csbm-sc", description="name of the data set")
    num_nodes: int = Field(
        50, ge=2, le=100_000, description="nodes, each a client (N)", json_schema_extra={"unit": "nodes"}
    )
    degree: float = Field(
        5.0, gt=0, le=1e6, description="expected neighbours of a client", json_schema_extra={"unit": "neighbours"}
    )
    edge_signal: float = Field(
        2.2, ge=-1e3, le=1e3, description="strength of the classes in the edges (lambda), at most sqrt(degree)"
    )
    feature_signal: float = Field(0.1, ge=0, le=1e6, description="strength of the classes in the features (mu)")
    majority: float = Field(0.7, ge=0.5, le=1, description="probability of the label that goes with a client's class")
    num_train: int = Field(
        10, ge=0, le=100_000, description="training samples of a client", json_schema_extra={"unit": "samples"}
    )
    num_val: int = Field(
        10, ge=0, le=100_000, description="validation samples of a client", json_schema_extra={"unit": "samples"}
    )
    num_test: int = Field(
        100, ge=1, le=100_000, description="test samples of a client", json_schema_extra={"unit": "samples"}
    )

    def with_samples(self, rng: Rng, v: NDArray[np.int64], edge_index: NDArray[np.int64]) -> Graph:
        """Return a graph of samples without edges, and the graph of clients."""
        counts = (self.num_train, self.num_val, self.num_test)
        client = np.repeat(np.arange(self.num_nodes), sum(counts))
        role = np.tile(np.repeat([Role.TRAIN, Role.VAL, Role.TEST], counts), self.num_nodes).astype(np.int8)
        agrees = rng.random(len(client)) < self.majority
        y = np.where(agrees, v[client], 1 - v[client])
        return _graph(self.features(rng, y), y, role, client=client, links=edge_index)

    @property
    def best_accuracy(self) -> float:
        """The accuracy of who knows every client's class and the direction u, of length 1.

        With s = sqrt(mu p / N) and t = log(q / (1 - q)) / (2 s), q = `majority`, it is
        ``q Phi(s + t) + (1 - q) Phi(s - t)``.
        """
        s, q = (self.feature_signal * self.num_features / self.num_nodes) ** 0.5, self.majority
        if s == 0 or q == 1:
            return q
        t = log(q / (1 - q)) / (2 * s)
        return q * NormalDist().cdf(s + t) + (1 - q) * NormalDist().cdf(s - t)


def connected_and_balanced(
    rng: Rng, v: NDArray[np.int64], edge_index: NDArray[np.int64], count: int
) -> list[int] | None:
    """Return `count` nodes, connected with each other, of which half are of each class; None if none are found.

    The set grows from a random node by random neighbours of a class that is still wanted.
    """
    links = _matrix(edge_index, len(v))
    for start in rng.permutation(len(v)):
        wanted = np.array([count - count // 2, count // 2])
        chosen: list[int] = []
        frontier = {int(start)}
        while len(chosen) < count:
            fit = sorted(node for node in frontier if wanted[v[node]] > 0)
            if not fit:
                break
            node = fit[rng.integers(len(fit))]
            wanted[v[node]] -= 1
            chosen.append(node)
            neighbours = links.indices[links.indptr[node] : links.indptr[node + 1]]
            frontier = (frontier | set(neighbours.tolist())) - set(chosen)
        if len(chosen) == count:
            return chosen
    return None


def _graph(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    role: NDArray[np.int8],
    *,
    edge_index: NDArray[np.int64] | None = None,
    client: NDArray[np.int64] | None = None,
    links: NDArray[np.int64] | None = None,
) -> Graph:
    return Graph(
        x=x,
        edge_index=np.empty((2, 0), np.int64) if edge_index is None else edge_index,
        edge_weight=None,
        y=y,
        role=role,
        node_id=np.arange(len(y)),
        num_classes=2,
        client=client,
        client_graph=None if client is None or links is None else _matrix(links, int(client.max()) + 1),
    )


def _matrix(edge_index: NDArray[np.int64], num_nodes: int) -> sparse.csr_array:
    ones = np.ones(edge_index.shape[1])
    return sparse.coo_array((ones, (edge_index[1], edge_index[0])), shape=(num_nodes, num_nodes)).tocsr()
