"""Sparse matrices that multiply dense ones, forwards and backwards, by rows; for one client or for many at once."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


class Matrix(ABC):
    """A constant matrix of one client that multiplies dense ones from the left, differentiably."""

    @abstractmethod
    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product [num_rows, width] with `dense` [num_columns, width]."""

    @property
    def entries(self) -> Tensor:
        """Row and column of each entry [2, num_entries], -1 where a batch has filled up; not of every matrix."""
        raise NotImplementedError


class SparseMatrix(Matrix):
    """A constant sparse matrix [num_rows, num_columns] in float32.

    ``matrix @ dense`` is differentiable in `dense`; the matrix itself never has a gradient. Both directions are
    products by rows, since the transpose is kept beside the matrix. The matrix, which may be given as what returns it,
    and what products need are made when they are first wanted: of thousands of clients few matrices are.
    """

    def __init__(self, matrix: sparse.sparray | Callable[[], sparse.sparray], device: torch.device) -> None:
        self._given = matrix
        self.device = device

    @cached_property
    def rows(self) -> sparse.csr_array:
        """The matrix."""
        return _canonical(self._given() if callable(self._given) else self._given)

    @cached_property
    def entries(self) -> Tensor:
        """Row and column of each entry [2, num_entries]."""
        rows, columns = self.rows.tocoo().coords
        return torch.from_numpy(np.stack([rows, columns]).astype(np.int64)).to(self.device)

    @cached_property
    def columns(self) -> sparse.csr_array:
        """The transpose."""
        return _canonical(self.rows.T)

    @cached_property
    def _forward(self) -> Tensor:
        return csr_tensor(self.rows, self.device)

    @cached_property
    def _backward(self) -> Tensor:
        return csr_tensor(self.columns, self.device)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows.shape[0], self.rows.shape[1]

    def multiply(self, dense: Tensor, *, transposed: bool) -> Tensor:
        """Return the product of the matrix, or of its transpose, without a derivative."""
        return _times(self._backward if transposed else self._forward, dense)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _product(dense, self, False)


class _Product(torch.autograd.Function):
    """d/dH of (A H) applied to G is (A^T G)."""

    @staticmethod
    def forward(dense: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
        return matrix.multiply(dense, transposed=transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, SparseMatrix, bool], output: Tensor) -> None:
        ctx.matrix, ctx.transposed = inputs[1], inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _product(gradient, ctx.matrix, not ctx.transposed), None, None


class Blocks:
    """One sparse matrix per client, padded to the same shape and laid out for all clients' products at once.

    Each layout is made when it is first needed: not every model uses every matrix of a graph, in both directions.
    """

    def __init__(self, matrices: Sequence[Matrix], shape: tuple[int, int]) -> None:
        self._matrices = [matrix for matrix in matrices if isinstance(matrix, SparseMatrix)]
        assert len(self._matrices) == len(matrices), "blocks are made of sparse matrices"
        self.num_rows, self.num_columns = shape

    @cached_property
    def diagonal(self) -> Tensor:
        """The blocks on a diagonal [num_clients * num_rows, num_clients * num_columns]: for operands that differ."""
        return self._laid_out([matrix.rows for matrix in self._matrices], self.num_rows, self.num_columns)

    @cached_property
    def transposed(self) -> Tensor:
        """The transpose of `diagonal`."""
        return self._laid_out([matrix.columns for matrix in self._matrices], self.num_columns, self.num_rows)

    @cached_property
    def column(self) -> Tensor:
        """The blocks one below the other [num_clients * num_rows, num_columns]: for an operand that all share."""
        return self._laid_out([matrix.rows for matrix in self._matrices], self.num_rows, 0)

    @cached_property
    def entries(self) -> Tensor:
        """Row and column of each client's entries [num_clients, 2, num_entries], filled up with -1."""
        lists = [matrix.entries.T for matrix in self._matrices]
        return pad_sequence(lists, batch_first=True, padding_value=-1).transpose(1, 2)

    def _laid_out(self, blocks: list[sparse.csr_array], num_rows: int, offset: int) -> Tensor:
        num_columns = offset * len(blocks) or self.num_columns
        offsets = [index * offset for index in range(len(blocks))]
        return csr_tensor(_below_each_other(blocks, num_rows, offsets, num_columns), self._matrices[0].device)

    def of_client(self, index: Tensor) -> "ClientBlock":
        """Return one client's block; `index` is its number, as a tensor that ``torch.vmap`` maps over."""
        return ClientBlock(self, index)

    def multiply(self, dense: Tensor, *, transposed: bool) -> Tensor:
        """Return every client's product, or that of its transpose; `dense` is [num_clients, num_columns, width]."""
        matrix, size = (self.transposed, self.num_columns) if transposed else (self.diagonal, self.num_rows)
        return _times(matrix, dense.reshape(-1, dense.shape[-1])).view(len(dense), size, dense.shape[-1])

    def multiply_shared(self, dense: Tensor) -> Tensor:
        """Return every client's product with one `dense` [num_columns, width]."""
        return _times(self.column, dense).view(-1, self.num_rows, dense.shape[-1])


class ClientBlock(Matrix):
    """One client's matrix among those of all, inside ``torch.vmap``: ``block @ dense`` is a `SparseMatrix` product.

    The client's index is handed to each product although it is not needed, because it is always mapped over: a rule for
    the operand alone would never apply where the operand is shared by all clients.
    """

    def __init__(self, blocks: Blocks, index: Tensor) -> None:
        self._blocks = blocks
        self._index = index

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _block_product(dense, self._index, self._blocks, False)

    @property
    def entries(self) -> Tensor:
        """Row and column of each entry [2, num_entries], filled up with -1."""
        return self._blocks.entries.index_select(0, self._index.reshape(1)).squeeze(0)


class _BlockProduct(torch.autograd.Function):
    """A_k H, or A_k^T H, for a client k; the rule for ``torch.vmap`` computes all clients in one product."""

    @staticmethod
    def forward(dense: Tensor, index: Tensor, blocks: Blocks, transposed: bool) -> Tensor:
        raise NotImplementedError("a client's block exists inside torch.vmap only")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Blocks, bool], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.blocks, ctx.transposed = inputs[2], inputs[3]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _block_product(gradient, ctx.saved_tensors[0], ctx.blocks, not ctx.transposed), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, dense: Tensor, index: Tensor, blocks: Blocks, transposed: bool) -> Any:
        if in_dims[0] is not None:
            return blocks.multiply(dense.movedim(in_dims[0], 0), transposed=transposed), 0
        if transposed:
            return blocks.multiply(dense.expand(info.batch_size, *dense.shape), transposed=True), 0
        return blocks.multiply_shared(dense), 0


# What torch declares of `apply` has no types.
_product: Callable[..., Tensor] = _Product.apply
_block_product: Callable[..., Tensor] = _BlockProduct.apply


def _times(matrix: Tensor, dense: Tensor) -> Tensor:
    """Return ``matrix @ dense`` for a CSR matrix.

    The operator itself fills the result with zeros, copies zeros over them and only then computes, which for a large
    result takes several times as long as the product.
    """
    return dense.new_empty(matrix.shape[0], dense.shape[1]).addmm_(matrix, dense, beta=0)


def csr_tensor(matrix: sparse.sparray, device: torch.device) -> Tensor:
    """Return a SciPy matrix as a torch CSR tensor in float32."""
    matrix = _canonical(matrix)
    rows, columns = (torch.from_numpy(index.astype(np.int64)) for index in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_csr_tensor(rows, columns, values, matrix.shape, check_invariants=True).to(device)


def _canonical(matrix: sparse.sparray) -> sparse.csr_array:
    rows = matrix.tocsr()
    rows.sum_duplicates()
    return rows


def _below_each_other(
    blocks: Sequence[sparse.csr_array], num_rows: int, offsets: Sequence[int], num_columns: int
) -> sparse.csr_array:
    """Stack blocks, each filled up to `num_rows` rows and moved right by its offset."""
    counts = np.zeros((len(blocks), num_rows), np.int64)
    for index, block in enumerate(blocks):
        counts[index, : block.shape[0]] = np.diff(block.indptr)
    starts: NDArray[np.int64] = np.concatenate([[0], counts.ravel().cumsum()])
    columns = np.concatenate(
        [block.indices.astype(np.int64) + offset for block, offset in zip(blocks, offsets, strict=True)]
    )
    values = np.concatenate([block.data for block in blocks])
    return sparse.csr_array((values, columns, starts), shape=(len(blocks) * num_rows, num_columns))
