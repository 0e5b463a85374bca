"""The nodes whose features are nearest to generated ones, out of all or of a few."""

import torch
from torch import Tensor

from fedgraph_sim.engine.sparse import Matrix, SparseMatrix

MAX_ENTRIES = 1 << 24
"""Distances held at a time: 64 MB."""


def nearest(rows: Tensor, x: Tensor | Matrix, allowed: Tensor | None = None) -> Tensor:
    """Return argmin_u ||rows_i - x_u||^2 over the nodes u, [r], for rows [r, F] and features [n, F], n > 0.

    With `allowed` [r, n], boolean, only over those nodes; a row that has none gets any. The distances are computed as
    ||x_u||^2 - 2 rows_i x_u, for as many rows at a time as fit `MAX_ENTRIES`.
    """
    rows = rows.detach()
    norms = squared_norms(x)
    step = max(1, MAX_ENTRIES // len(norms))
    parts = []
    for begin in range(0, len(rows), step):
        distances = norms[:, None] - 2 * (x @ rows[begin : begin + step].T)
        if allowed is not None:
            distances = distances.masked_fill(~allowed[begin : begin + step].T, torch.inf)
        parts.append(distances.argmin(dim=0))
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.long, device=rows.device)


def squared_distances(rows: Tensor, x: Tensor | Matrix, node: Tensor) -> Tensor:
    """Return ||rows_i - x_node_i||^2, [r], differentiable in the rows."""
    return (rows - features_of(x, node)).square().sum(dim=1)


def features_of(x: Tensor | Matrix, node: Tensor) -> Tensor:
    """Return the features of some nodes, dense; outside of batches."""
    if isinstance(x, Tensor):
        return x[node]
    assert isinstance(x, SparseMatrix), "outside of batches features are a tensor or a sparse matrix"
    return torch.from_numpy(x.rows[node.cpu().numpy()].toarray()).to(node.device, torch.float32)


def squared_norms(x: Tensor | Matrix) -> Tensor:
    """Return ||x_u||^2 of each node, [n]; outside of batches."""
    if isinstance(x, Tensor):
        return x.square().sum(dim=1)
    assert isinstance(x, SparseMatrix), "outside of batches features are a tensor or a sparse matrix"
    norms = x.rows.multiply(x.rows).sum(axis=1)
    return torch.from_numpy(norms).to(x.device, torch.float32)
