"""Overlapping clients: several random samples of each METIS part.

Baek et al., Personalized Subgraph Federated Learning, 2023.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.metis import metis_parts
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.errors import ConfigError


class Overlap(Partitioner):
    """Each METIS part serves `clients_per_part` clients, each with its own random `share` of the part's nodes.

    Clients of a part follow one another; a node may belong to several clients, or to none.
    """

    summary: ClassVar[str] = "overlapping samples of METIS parts"

    name: Literal["overlap"] = Field("overlap", description="name of the partitioner")
    clients_per_part: int = Field(
        5, ge=1, description="clients that sample from one part", json_schema_extra={"unit": "clients"}
    )
    share: float = Field(0.5, gt=0, le=1, description="fraction of a part's nodes that a client holds")

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        if num_clients % self.clients_per_part:
            raise ConfigError(
                f"clients={num_clients} is not a multiple of partition.clients_per_part={self.clients_per_part};"
                " change one of them"
            )
        parts = metis_parts(graph, num_clients // self.clients_per_part, recursive=False)
        rng = np.random.default_rng(seed)
        return [
            np.sort(rng.choice(part, size=max(int(len(part) * self.share), 1), replace=False))
            for part in parts
            for _ in range(self.clients_per_part)
        ]
