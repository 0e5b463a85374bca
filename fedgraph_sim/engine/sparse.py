"""Sparse matrices that multiply dense ones, forwards and backwards, by rows."""

import warnings
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


class SparseMatrix:
    """A constant sparse matrix [num_rows, num_columns] in float32, with its transpose at hand for the backward pass.

    ``matrix @ dense`` is differentiable in `dense`; the matrix itself never has a gradient.
    """

    def __init__(self, csr: Tensor, transposed: Tensor) -> None:
        self.csr = csr
        self.transposed = transposed

    @classmethod
    def of(cls, matrix: sparse.sparray, device: torch.device) -> Self:
        """Move a SciPy matrix to `device`."""
        return cls(_csr_tensor(matrix.tocsr(), device), _csr_tensor(matrix.T.tocsr(), device))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.csr.shape[0], self.csr.shape[1]

    @property
    def T(self) -> "SparseMatrix":  # noqa: N802 - the name that NumPy and torch use
        """The transpose, without a copy."""
        return SparseMatrix(self.transposed, self.csr)

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    """d/dH of (A H) applied to G is (A^T G)."""

    @staticmethod
    def forward(dense: Tensor, matrix: SparseMatrix) -> Tensor:
        return matrix.csr @ dense

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, SparseMatrix], output: Tensor) -> None:
        ctx.matrix = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.T @ gradient, None


def _csr_tensor(matrix: sparse.csr_array, device: torch.device) -> Tensor:
    matrix.sum_duplicates()
    rows, columns = (torch.from_numpy(index.astype(np.int64)) for index in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_csr_tensor(rows, columns, values, matrix.shape, check_invariants=True).to(device)
