"""Means over neighbours that are drawn anew for every step, for one client or, under ``torch.vmap``, for many."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.sparse import Matrix
from fedgraph_sim.engine.tree import Tree


def neighbor_lists(adjacency: sparse.csr_array, device: torch.device) -> Tree:
    """Return the neighbours of n nodes as tensors, from an adjacency [n, n] with row = target and e entries.

    Those of node v are ``node[start[v] : start[v] + degree[v]]`` with edges of `weight`, whose sum is ``total[v]``.
    """
    arrays = {
        "start": adjacency.indptr[:-1].astype(np.int64),
        "degree": np.diff(adjacency.indptr).astype(np.int64),
        "node": adjacency.indices.astype(np.int64),
        "weight": adjacency.data.astype(np.float32),
        "total": adjacency.sum(axis=1).astype(np.float32),
    }
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def drawn(degree: Tensor, size: int, random: RandomStream) -> Tensor:
    """Return [n, size] numbers, those of row v uniform in 0..degree_v - 1; 0 where the degree [n] is 0."""
    high = degree.clamp(min=1)[:, None].expand(-1, size).reshape(-1)
    return random.integers(len(degree) * size, high).reshape(-1, size)


class NeighborSum(Matrix):
    """The matrix [n, m] with, in row v, the entries `scale` [n, size] in the columns `index` [n, size]; they add up."""

    def __init__(self, index: Tensor, scale: Tensor) -> None:
        self._index = index
        self._scale = scale

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _neighbor_sum(dense, self._index, self._scale, dense.shape[0], False)


class _NeighborSum(torch.autograd.Function):
    """sum_s scale_vs dense[index_vs], or the transpose; differentiable in `dense` alone.

    The rule for ``torch.vmap`` computes all clients in one product.
    """

    @staticmethod
    def forward(dense: Tensor, index: Tensor, scale: Tensor, num_columns: int, transposed: bool) -> Tensor:
        product: Tensor = torch.ops.fedgraph_sim.neighbor_sum(dense, index, scale, num_columns, transposed)
        return product

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int, bool], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:3])
        ctx.num_columns, ctx.transposed = inputs[3:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        index, scale = ctx.saved_tensors
        return _neighbor_sum(gradient, index, scale, ctx.num_columns, not ctx.transposed), None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, dense: Tensor, index: Tensor, scale: Tensor, num_columns: int, transposed: bool
    ) -> Any:
        def stacked(leaf: Tensor, dimension: int | None) -> Tensor:
            return leaf.expand(info.batch_size, *leaf.shape) if dimension is None else leaf.movedim(dimension, 0)

        dense, index, scale = map(stacked, (dense, index, scale), in_dims[:3])
        offset = torch.arange(info.batch_size, device=index.device)[:, None, None] * num_columns
        flat = dense.reshape(-1, dense.shape[-1]), (index + offset).flatten(0, 1), scale.flatten(0, 1)
        product = _neighbor_sum(*flat, info.batch_size * num_columns, transposed)
        return product.reshape(info.batch_size, -1, dense.shape[-1]), 0


_neighbor_sum: Callable[..., Tensor] = _NeighborSum.apply  # what torch declares of `apply` has no types

_LIBRARY = torch.library.Library("fedgraph_sim", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "neighbor_sum(Tensor dense, Tensor index, Tensor scale, int num_columns, bool transposed) -> Tensor"
)


@torch.library.impl(_LIBRARY, "neighbor_sum", "CompositeExplicitAutograd")
def _neighbor_sum_of(dense: Tensor, index: Tensor, scale: Tensor, num_columns: int, transposed: bool) -> Tensor:
    """Return the product as one of a sparse matrix, ten times as fast as by gathering rows and adding them up."""
    num_rows, size = index.shape
    if transposed:
        spread = (scale[..., None] * dense[:, None, :]).reshape(-1, dense.shape[1])
        return dense.new_zeros(num_columns, dense.shape[1]).index_add_(0, index.reshape(-1), spread)
    rows = torch.arange(num_rows + 1, device=index.device) * size
    matrix = torch.sparse_csr_tensor(
        rows, index.reshape(-1), scale.reshape(-1), (num_rows, num_columns), check_invariants=False
    )
    return dense.new_empty(num_rows, dense.shape[1]).addmm_(matrix, dense, beta=0)
