"""Small connected parts of Cora: the real data of GFL-APPNP.

Wu et al., Graph Federated Learning with Hidden Representation Sharing, 2022, and its released code.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset
from fedgraph_sim.datasets.planetoid import Planetoid
from fedgraph_sim.datasets.preprocess import adjacency
from fedgraph_sim.datasets.subgraph import induced_subgraphs
from fedgraph_sim.errors import ConfigError

MAX_TRIES = 100
"""Draws until one has a component of the size that is wanted."""


class SubCora(GraphDataset):
    """A connected part of Cora that trains, and the nodes around it that validate and test.

    `num_drawn` random nodes of Cora induce a subgraph; its largest component of at most `max_train` nodes trains. Of
    the other nodes within two steps of it, by number, as many validate, and the next test, so that there are
    `num_nodes` in all. Where the component has fewer than `min_train` nodes, or too few others are near, other nodes
    are drawn. The released code lists draws and components of its own choice instead.
    Use it with ``partition.name = "node"``, ``clients = num_nodes`` and ``split.kind = "own"``.
    """

    summary: ClassVar[str] = "a small part of Cora around a connected part that trains"

    name: Literal["subcora"] = Field("subcora", description="name of the data set")
    largest_component: bool = Field(False, description="keep only the largest weakly connected component")
    num_nodes: int = Field(300, ge=3, le=2708, description="nodes of the part", json_schema_extra={"unit": "nodes"})
    num_drawn: int = Field(
        800, ge=1, le=2708, description="nodes of Cora that are drawn", json_schema_extra={"unit": "nodes"}
    )
    min_train: int = Field(
        30, ge=1, le=2708, description="nodes that train, at least", json_schema_extra={"unit": "nodes"}
    )
    max_train: int = Field(
        50, ge=1, le=2708, description="nodes that train, at most", json_schema_extra={"unit": "nodes"}
    )
    seed: int = Field(
        -1,
        ge=-1,
        lt=2**63,
        description="seed of the part; -1: the run's data seed, so that another seed is another part",
    )

    def seeded(self, seed: int) -> Self:
        """Return the data set with a seed of its own."""
        return self if self.seed >= 0 else self.model_copy(update={"seed": seed})

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the paths of Cora's files."""
        return Planetoid(name="Cora").files(data_dir, cache_dir)

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the part; the same options give the same."""
        cora = Planetoid(name="Cora").read(data_dir, cache_dir)
        links = adjacency(cora)
        rng = np.random.default_rng(max(self.seed, 0))
        for _ in range(MAX_TRIES):
            train = self._component(links, np.sort(rng.permutation(cora.num_nodes)[: self.num_drawn]))
            near = _near(links, train)
            if len(train) >= self.min_train and len(train) + len(near) >= self.num_nodes > 2 * len(train):
                return self._part(cora, train, near)
        raise ConfigError(
            f"dataset.name='subcora': none of {MAX_TRIES} draws of {self.num_drawn} nodes has a component of"
            f" {self.min_train} to {self.max_train} nodes with {self.num_nodes} around it; change dataset.num_drawn"
        )

    def _component(self, links: sparse.csr_array, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes of the largest component, among those drawn, that is not too large."""
        _, component = connected_components(links[drawn][:, drawn], directed=False)
        sizes = np.bincount(component)
        chosen: NDArray[np.int64] = drawn[component == np.where(sizes <= self.max_train, sizes, 0).argmax()]
        return chosen

    def _part(self, cora: Graph, train: NDArray[np.int64], near: NDArray[np.int64]) -> Graph:
        others = near[: self.num_nodes - len(train)]
        role = np.zeros(cora.num_nodes, np.int8)
        role[train], role[others[: len(train)]], role[others[len(train) :]] = Role.TRAIN, Role.VAL, Role.TEST
        nodes = np.sort(np.concatenate([train, others]))
        part = next(induced_subgraphs(cora, [nodes])).graph
        part.role[:] = role[nodes]
        return part


def _near(links: sparse.csr_array, train: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the other nodes within two steps of `train`, by number."""
    reached = np.zeros(links.shape[0])
    reached[train] = 1
    for _ in range(2):
        reached = reached + links @ reached
    reached[train] = 0
    return np.flatnonzero(reached)
