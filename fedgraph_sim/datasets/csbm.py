"""Synthetic graphs: contextual stochastic block models, alone or several in one graph.

Deshpande et al., Contextual Stochastic Block Models, 2018.
"""

from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.graph_dataset import GraphDataset

Rng = np.random.Generator


class Csbm(GraphDataset):
    """Communities that are each a contextual stochastic block model of two classes, in groups that share their classes.

    In a community of n nodes: v = +-1 by a fair coin; an edge with probability (degree + lambda sqrt(degree)) / n
    between equal v and (degree - lambda sqrt(degree)) / n between others, where lambda is `edge_signal`; features
    b = sqrt(mu / n) v u + z / sqrt(p) with z ~ N(0, I_p) and one u ~ N(0, I_p / p). In group g the class is 2 g for
    v = -1 and 2 g + 1 for v = 1: the same features mean one class here and another there, and no feature tells the
    group. Nodes of different communities are joined with a probability that gives `bridge` such edges per node. With
    one community this is the published model.
    """

    summary: ClassVar[str] = "synthetic communities, in groups where features mean other classes; needs no files"

    name: Literal["csbm"] = Field("csbm", description="name of the data set")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")
    num_nodes: int = Field(
        2000,
        ge=2,
        le=10_000_000,
        description="nodes of the graph before the largest component is taken",
        json_schema_extra={"unit": "nodes"},
    )
    num_features: int = Field(
        64, ge=1, le=100_000, description="features of a node (p)", json_schema_extra={"unit": "features"}
    )
    num_communities: int = Field(
        10, ge=1, le=10_000_000, description="communities, of equal size", json_schema_extra={"unit": "communities"}
    )
    num_groups: int = Field(
        3,
        ge=1,
        le=100_000,
        description="groups of communities that share their two classes; community i is in group i mod this",
        json_schema_extra={"unit": "groups"},
    )
    degree: float = Field(
        10.0,
        gt=0,
        le=1e6,
        description="expected neighbours of a node inside its community",
        json_schema_extra={"unit": "neighbours"},
    )
    edge_signal: float = Field(
        1.0, ge=-1e3, le=1e3, description="strength of the classes in the edges (lambda), at most sqrt(degree)"
    )
    feature_signal: float = Field(4.0, ge=0, le=1e6, description="strength of the classes in the features (mu)")
    bridge: float = Field(
        0.5,
        ge=0,
        le=1e4,
        description="expected neighbours of a node in other communities",
        json_schema_extra={"unit": "neighbours"},
    )
    seed: int = Field(0, ge=0, lt=2**63, description="seed of the graph, whatever the seed of the run")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if abs(self.edge_signal) > self.degree**0.5:
            raise ValueError(f"edge_signal={self.edge_signal:g} makes a negative probability; use at most sqrt(degree)")
        if self.num_communities > self.num_nodes:
            raise ValueError(f"num_communities={self.num_communities} exceeds num_nodes={self.num_nodes}; lower it")
        smallest = self.num_nodes // self.num_communities
        if self.degree + abs(self.edge_signal) * self.degree**0.5 > smallest:
            raise ValueError(
                f"degree={self.degree:g} is too high for communities of {counted(smallest, 'node')}; lower it"
            )
        return self

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return a fresh sample; the same options give the same graph."""
        rng = np.random.default_rng(self.seed)
        side = rng.integers(0, 2, self.num_nodes)
        communities = np.array_split(np.arange(self.num_nodes), self.num_communities)
        meaning = rng.standard_normal(self.num_features) / self.num_features**0.5
        x = rng.standard_normal((self.num_nodes, self.num_features)) / self.num_features**0.5
        y, pairs = side.copy(), [self._bridges(rng, communities)]
        for index, nodes in enumerate(communities):
            x[nodes] += (self.feature_signal / len(nodes)) ** 0.5 * np.outer(2 * side[nodes] - 1, meaning)
            pairs += community_edges(rng, nodes, side[nodes], degree=self.degree, edge_signal=self.edge_signal)
            y[nodes] += 2 * (index % self.num_groups)
        edges = np.concatenate(pairs, axis=1)
        return Graph(
            x=x.astype(np.float32),
            edge_index=np.concatenate([edges, edges[::-1]], axis=1),
            edge_weight=None,
            y=y,
            role=np.zeros(self.num_nodes, dtype=np.int8),
            node_id=np.arange(self.num_nodes),
            num_classes=2 * min(self.num_groups, self.num_communities),
        )

    def _bridges(self, rng: Rng, communities: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        community = np.repeat(np.arange(len(communities)), [len(nodes) for nodes in communities])
        num_others = self.num_nodes - self.num_nodes / len(communities)
        if num_others == 0:
            return np.empty((2, 0), dtype=np.int64)
        pairs = _pairs(rng, self.num_nodes, self.bridge / num_others)
        return pairs[:, community[pairs[0]] != community[pairs[1]]]


def community_edges(
    rng: Rng, nodes: NDArray[np.int64], y: NDArray[np.int64], *, degree: float, edge_signal: float
) -> list[NDArray[np.int64]]:
    """Return the edges of one community of n `nodes` with classes `y`, each [2, num_edges] and each edge once.

    An edge has probability (degree + edge_signal sqrt(degree)) / n inside a class, and with a minus between classes.
    """
    spread = edge_signal * degree**0.5
    same, different = ((degree + sign * spread) / len(nodes) for sign in (1, -1))
    first, second = nodes[y == 0], nodes[y == 1]
    picks = _bernoulli(rng, len(first) * len(second), different)
    between = np.stack([first[picks // max(len(second), 1)], second[picks % max(len(second), 1)]])
    return [first[_pairs(rng, len(first), same)], second[_pairs(rng, len(second), same)], between]


def _bernoulli(rng: Rng, num_trials: int, probability: float) -> NDArray[np.int64]:
    """Return the indices of the successes among independent trials, without visiting the failures."""
    count = rng.binomial(num_trials, min(probability, 1.0))
    return rng.choice(num_trials, size=count, replace=False, shuffle=False)


def _pairs(rng: Rng, num_nodes: int, probability: float) -> NDArray[np.int64]:
    """Return each pair i < j of `num_nodes` nodes independently with `probability`, [2, num_pairs]."""
    index = _bernoulli(rng, num_nodes * (num_nodes - 1) // 2, probability)
    j = ((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(np.int64)
    return np.stack([index - j * (j - 1) // 2, j])
