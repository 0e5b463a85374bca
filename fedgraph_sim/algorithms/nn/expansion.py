"""Graphs with neighbours outside, of which only embeddings are known, so that they enter behind the first layer."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.sparse import Matrix
from fedgraph_sim.engine.tree import Tree


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpandedGraph(GraphTensors):
    """A graph of n nodes and, for layers behind the first, `second`: the same with neighbours outside after them.

    `outside` [r + 1, width] are the embeddings of these; the last row is nobody's.
    """

    second: GraphTensors
    outside: Tensor


def expanded(graph: GraphTensors, edges: Tree, scales: Tree, outside: Tensor) -> ExpandedGraph:
    """Return `graph` with its neighbours outside, whose embeddings are `outside` [r, width].

    `edges` and `scales` are those of `expansion`; all three may be filled up with zeros, as states are.
    """
    n = graph.num_nodes

    def matrix(own: Matrix, name: str, columns: Tensor) -> _ExpandedMatrix:
        return _ExpandedMatrix(own, scales[name][:n], columns[:n], edges["node"], edges["neighbor"], edges[name])

    second = replace(
        graph,
        normalized_adjacency=matrix(graph.normalized_adjacency, "normalized", scales["normalized"]),
        mean_adjacency=matrix(graph.mean_adjacency, "mean", torch.ones_like(scales["mean"])),
    )
    # One row more, so that an edge that is filled up has something to multiply with its 0.
    return ExpandedGraph(**vars(graph), second=second, outside=F.pad(outside, (0, 0, 0, 1)))


class _ExpandedMatrix(Matrix):
    """[[R M C, E], [0, 0]]: a propagation matrix M [n, n] scaled by rows and columns, and the edges E from outside.

    What arrives at the nodes outside is of no use to anybody and left out.
    """

    def __init__(
        self, matrix: Matrix, rows: Tensor, columns: Tensor, node: Tensor, neighbor: Tensor, value: Tensor
    ) -> None:
        self._matrix, self._rows, self._columns = matrix, rows[:, None], columns[:, None]
        self._node, self._neighbor, self._value = node, neighbor, value[:, None]

    def __matmul__(self, dense: Tensor) -> Tensor:
        n = len(self._rows)
        inside, outside = dense[:n], dense[n:]
        product = self._rows * (self._matrix @ (self._columns * inside))
        product = product.index_add(0, self._node, self._value * outside.index_select(0, self._neighbor))
        return torch.cat([product, torch.zeros_like(outside)])


def expansion(
    adjacency: sparse.csr_array, node: NDArray[np.int64], neighbor: NDArray[np.int64], weight: NDArray[np.floating[Any]]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.float32]]]:
    """Return the edges from outside nodes `neighbor` to own ones `node`, and how the own matrices have to be scaled.

    Both have values for the two propagation matrices of `GraphTensors`, as they are in the graph of all n + r nodes.
    """
    n = adjacency.shape[0]
    degree = adjacency.sum(axis=1)
    looped = degree + (adjacency.diagonal() == 0)
    extra = np.bincount(node, weight, minlength=n)
    outside = 1 + np.bincount(neighbor, weight)
    values = {
        "normalized": weight / np.sqrt((looped + extra)[node] * outside[neighbor]),
        "mean": weight / (degree + extra)[node],
    }
    scales = {
        "normalized": np.sqrt(looped / (looped + extra)),
        "mean": np.divide(degree, degree + extra, out=np.ones(n), where=degree > 0),
    }
    edges = {name: value.astype(np.float32) for name, value in values.items()}
    return {"node": node, "neighbor": neighbor} | edges, {name: s.astype(np.float32) for name, s in scales.items()}
