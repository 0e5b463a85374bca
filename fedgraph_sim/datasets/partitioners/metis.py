"""METIS: parts of equal size with few edges between them.

Karypis and Kumar, A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs, 1998.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner, members_of, without_empty
from fedgraph_sim.datasets.preprocess import adjacency


class Metis(Partitioner):
    """Disjoint parts of nearly equal size with a small edge cut."""

    summary: ClassVar[str] = "disjoint parts of equal size with few edges between them"

    name: Literal["metis"] = Field("metis", description="name of the partitioner")
    recursive: bool = Field(False, description="bisect recursively instead of dividing k ways at once")
    seed: int = Field(
        -1,
        ge=-1,
        le=2**31 - 1,
        description="seed of METIS; -1: its own fixed one, as published experiments have it, so that all runs share "
        "one partition whatever their seed",
    )

    def _assign(self, graph: Graph, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        return metis_parts(graph, num_clients, self.seed, recursive=self.recursive)


def metis_parts(graph: Graph, num_parts: int, seed: int = -1, *, recursive: bool) -> list[NDArray[np.int64]]:
    """Return the sorted nodes of exactly `num_parts` parts, none of them empty.

    k-way division may leave parts of a small graph empty; then recursive bisection is used, and where parts are of
    hardly more than one node and some are empty even so, each of those gets half of the largest part.
    """
    import pymetis

    matrix = adjacency(graph)  # METIS ends the process on a graph that is not symmetric
    links = pymetis.CSRAdjacency(matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32))
    options = pymetis.Options(seed=seed)
    owner = np.zeros(graph.num_nodes, dtype=np.int64)
    for bisect in (recursive, True):
        division = pymetis.part_graph(num_parts, links, recursive=bisect, options=options)
        owner = np.asarray(division.vertex_part, dtype=np.int64)
        if len(np.unique(owner)) == num_parts:
            break
    return members_of(without_empty(owner, num_parts), num_parts)
