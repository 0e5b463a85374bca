"""Label skew: each class is divided among the clients in random proportions.

Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification, 2019; the
proportions per class as in Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural Networks, 2019.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner, members_of
from fedgraph_sim.errors import ConfigError


class LabelDirichlet(Partitioner):
    """Disjoint parts; the shares of a class are drawn from a symmetric Dirichlet distribution.

    Nodes without a label are divided as one more class. Drawn anew until each client has `min_nodes` nodes.
    """

    summary: ClassVar[str] = "disjoint parts with skewed label distributions"

    name: Literal["label-dirichlet"] = Field("label-dirichlet", description="name of the partitioner")
    alpha: float = Field(0.5, ge=1e-6, le=1e6, description="concentration; lower values skew more")
    min_nodes: int = Field(
        1, ge=1, description="nodes that each client has at least", json_schema_extra={"unit": "nodes"}
    )
    max_tries: int = Field(
        100, ge=1, le=100_000, description="draws before giving up", json_schema_extra={"unit": "draws"}
    )

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng(seed)
        for _ in range(self.max_tries):
            owner = self._draw(rng, graph.y, num_clients)
            if np.bincount(owner, minlength=num_clients).min() >= self.min_nodes:
                return members_of(owner, num_clients)
        raise ConfigError(
            f"partition.alpha={self.alpha:g} with clients={num_clients} left a client with fewer than"
            f" partition.min_nodes={self.min_nodes} nodes in {counted(self.max_tries, 'draw')};"
            " raise alpha, or lower clients or min_nodes"
        )

    def _draw(self, rng: np.random.Generator, y: NDArray[np.int64], num_clients: int) -> NDArray[np.int64]:
        owner = np.empty(len(y), dtype=np.int64)
        for label in np.unique(y):
            nodes = rng.permutation(np.flatnonzero(y == label))
            shares = np.cumsum(rng.dirichlet(np.full(num_clients, self.alpha)))
            ends = np.round(shares * len(nodes)).astype(np.int64)
            owner[nodes] = np.searchsorted(ends[:-1], np.arange(len(nodes)), side="right")
        return owner
