"""Which nodes, or links, train a model, which select it and which test it."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.errors import ConfigError


class Splitter(ConfigTable, ABC):
    """How examples get their roles; its fields are the `[split]` table of a configuration."""

    @abstractmethod
    def apply(self, data: Any, seed: int) -> Any:
        """Return the whole data with roles. Raises `ConfigError` where nothing would train."""

    def fingerprint(self) -> str:
        """Return what decides the roles that a store keeps."""
        return self.model_dump_json()

    def links(self, seed: int) -> LinkSplit | None:
        """Return the split of the links, None where the data have none to predict."""
        return None


class Split(Splitter):
    """Roles of the nodes and links; its fields are the `[split]` table of a configuration.

    `ratio`: one random order of the labelled nodes of the whole graph; the first are for training, the next for test,
    the next for validation, so a node has one role in every client that holds it. `own`: the data set's own roles,
    none for a node without a label.
    Links have roles only where links are predicted: see `LinkSplit`.
    Source: the protocol of FED-PUB (Baek et al., Personalized Subgraph Federated Learning, 2023).
    """

    kind: Literal["ratio", "own"] = Field("ratio", description="random by fractions, or the data set's own roles")
    train: float = Field(0.2, gt=0, le=1, description="fraction of the labelled nodes that train")
    val: float = Field(0.4, ge=0, le=1, description="fraction of the labelled nodes that validate")
    test: float = Field(0.4, ge=0, le=1, description="fraction of the labelled nodes that test")
    stratified: bool = Field(False, description="apply the fractions to each class on its own")
    link_val: float = Field(0.1, ge=0, lt=1, description="task link: fraction of the links that validate")
    link_test: float = Field(0.1, ge=0, lt=1, description="task link: fraction of the links that test")

    @model_validator(mode="after")
    def _fractions_fit(self) -> Self:
        total = self.train + self.val + self.test
        if total > 1 + 1e-9:
            raise ValueError(f"train + val + test is {total:g}; lower them to at most 1")
        if self.link_val + self.link_test >= 1:
            raise ValueError(f"link_val + link_test is {self.link_val + self.link_test:g}; lower them to below 1")
        return self

    def apply(self, data: Graph, seed: int) -> Graph:
        """Return the graph with roles. Raises `ConfigError` where no node would train."""
        graph = data
        if self.kind == "own":
            graph = replace(graph, role=np.where(graph.y >= 0, graph.role, Role.NONE).astype(np.int8))
            if graph.count(Role.TRAIN) == 0:
                raise ConfigError(
                    "split.kind='own' but the data set marks no labelled node for training; use split.kind='ratio'"
                )
            return graph
        rng = np.random.default_rng(seed)
        role = np.zeros(graph.num_nodes, dtype=np.int8)
        groups = range(graph.num_classes) if self.stratified else [None]
        for label in groups:
            nodes = np.flatnonzero(graph.y >= 0 if label is None else graph.y == label)
            self._assign(role, rng.permutation(nodes))
        if not (role == Role.TRAIN).any():
            labelled = int(np.count_nonzero(graph.y >= 0))
            raise ConfigError(f"split.train={self.train:g} of {labelled} labelled nodes is no node; raise split.train")
        return replace(graph, role=role)

    def fingerprint(self) -> str:
        """Return what decides the nodes' roles; a store says nothing about links'."""
        return self.model_dump_json(exclude={"link_val", "link_test"})

    def links(self, seed: int) -> LinkSplit:
        """Return the split of the links, whose fractions and roles decide nothing about nodes and partitions."""
        return LinkSplit(val=self.link_val, test=self.link_test, seed=seed)

    def _assign(self, role: NDArray[np.int8], order: NDArray[np.int64]) -> None:
        num_train = round(len(order) * self.train)
        num_test = min(round(len(order) * self.test), len(order) - num_train)
        end = round(len(order) * min(self.train + self.val + self.test, 1))
        role[order[:num_train]] = Role.TRAIN
        role[order[num_train : num_train + num_test]] = Role.TEST
        role[order[num_train + num_test : end]] = Role.VAL
