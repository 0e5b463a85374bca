"""Personalized propagation as one matrix, dense or, where that pays, sparse."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraph_sim.engine.graph_tensors import normalized
from fedgraph_sim.engine.tree import Tree

SPARSE_BELOW = 0.1
"""Share of entries that are not zero up to which a matrix is kept sparse."""


def personalized_propagation(graph: sparse.csr_array, *, teleport: float, steps: int) -> Tree:
    """Return A~ = a sum_{i<M} (1 - a)^i S^i + (1 - a)^M S^M [n, n], a = `teleport`, M = `steps`.

    S = D^-1/2 (A + I) D^-1/2 of the `graph` A, row = target. ``A~ H`` is what M steps of
    ``Z <- (1 - a) S Z + a H`` make of Z = H (Gasteiger et al., Predict then Propagate, ICLR 2019, eq. 8).
    """
    scaled = normalized(graph) * (1 - teleport)
    start = sparse.eye_array(graph.shape[0], format="csr") * teleport
    result: sparse.csr_array = sparse.eye_array(graph.shape[0], format="csr")
    dense: NDArray[np.float64] | None = None
    for _ in range(steps):
        if dense is None and result.nnz >= SPARSE_BELOW * np.prod(result.shape):
            dense = result.toarray()
        if dense is None:
            result = (scaled @ result + start).tocsr()
        else:
            dense = scaled @ dense
            dense[np.diag_indices_from(dense)] += teleport
    return {"dense": torch.from_numpy(dense).float()} if dense is not None else _parts(result)


def propagate(matrix: Tree, h: Tensor) -> Tensor:
    """Return A~ H for `h` [n, width]."""
    product: Tensor = (matrix["dense"] if "dense" in matrix else _sparse(matrix)) @ h
    return product


def diagonal(matrix: Tree) -> Tensor:
    """Return the diagonal [n]."""
    if "dense" in matrix:
        own_entries: Tensor = matrix["dense"].diagonal().clone()
        return own_entries
    count = len(matrix["starts"]) - 1
    row = torch.repeat_interleave(torch.arange(count), matrix["starts"].diff())
    own = row == matrix["columns"]
    return torch.zeros(count).index_add(0, row[own], matrix["values"][own])


def rows(matrix: Tree, numbers: Sequence[int]) -> Tensor:
    """Return some rows [len(numbers), n] without their entries on the diagonal: what others give to each."""
    index = torch.tensor(numbers, dtype=torch.long)
    chosen: Tensor
    if "dense" in matrix:
        chosen = matrix["dense"][index]
    else:
        chosen = torch.zeros(len(numbers), len(matrix["starts"]) - 1)
        for place, number in enumerate(numbers):
            begin, end = matrix["starts"][number : number + 2].tolist()
            chosen[place, matrix["columns"][begin:end]] = matrix["values"][begin:end]
    chosen[torch.arange(len(numbers)), index] = 0
    return chosen


def _parts(matrix: sparse.csr_array) -> Tree:
    if matrix.nnz >= SPARSE_BELOW * np.prod(matrix.shape):
        return {"dense": torch.from_numpy(matrix.toarray()).float()}
    return {
        "starts": torch.from_numpy(matrix.indptr.astype(np.int64)),
        "columns": torch.from_numpy(matrix.indices.astype(np.int64)),
        "values": torch.from_numpy(matrix.data).float(),
    }


def _sparse(matrix: Tree) -> Tensor:
    count = len(matrix["starts"]) - 1
    return torch.sparse_csr_tensor(matrix["starts"], matrix["columns"], matrix["values"], (count, count))
