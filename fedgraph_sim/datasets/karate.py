"""Zachary's karate club: 34 nodes, for trying things out.

Zachary, An Information Flow Model for Conflict and Fission in Small Groups, 1977.
"""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy import sparse

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.graph_dataset import GraphDataset


class Karate(GraphDataset):
    """The karate club; classes are the two factions, features the identity matrix, edges unweighted."""

    summary: ClassVar[str] = "34 members of a karate club, classes are its two factions; needs no files"

    name: Literal["karate"] = Field("karate", description="name of the data set")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the graph that NetworkX ships with."""
        import networkx

        club = networkx.karate_club_graph()
        edges = np.array(club.edges, dtype=np.int64).T
        factions = networkx.get_node_attributes(club, "club")
        return Graph(
            x=sparse.eye_array(len(club), dtype=np.float32, format="csr"),
            edge_index=np.concatenate([edges, edges[::-1]], axis=1),
            edge_weight=None,
            y=np.array([faction != "Mr. Hi" for faction in factions.values()], dtype=np.int64),
            role=np.zeros(len(club), dtype=np.int8),
            node_id=np.arange(len(club)),
            num_classes=2,
        )
