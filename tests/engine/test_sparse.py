import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraph_sim.engine.sparse import SparseMatrix

CPU = torch.device("cpu")
DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, -1, 0]], np.float32)


@pytest.fixture
def matrix():
    return SparseMatrix(sparse.csr_array(DENSE), CPU)


def test_product_equals_the_dense_one(matrix):
    h = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(matrix @ h, torch.from_numpy(DENSE) @ h)
    assert matrix.shape == (3, 4)


def test_duplicate_entries_add_up():
    twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert (SparseMatrix(twice, CPU) @ torch.eye(2)).tolist() == [[0, 3]]


def test_gradient_by_autograd_and_by_torch_func(matrix):
    h = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    scale = torch.arange(6.0).reshape(3, 2)
    expected = torch.from_numpy(DENSE).T @ scale
    leaf = h.clone().requires_grad_()
    ((matrix @ leaf) * scale).sum().backward()
    torch.testing.assert_close(leaf.grad, expected)
    torch.testing.assert_close(torch.func.grad(lambda x: ((matrix @ x) * scale).sum())(h), expected)


def test_gradient_equals_finite_differences(matrix):
    def loss(x):
        return torch.sin(matrix @ x).sum()

    h = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    gradient, step = torch.func.grad(loss)(h), 1e-2
    for row in range(4):
        for column in range(2):
            moved = torch.zeros(4, 2)
            moved[row, column] = step
            slope = (loss(h + moved) - loss(h - moved)) / (2 * step)
            assert gradient[row, column].item() == pytest.approx(slope.item(), abs=2e-3)


def test_second_derivative(matrix):
    def slope(x):
        return torch.func.grad(lambda y: ((matrix @ y) ** 3).sum())(x).sum()

    def dense_slope(x):
        return torch.func.grad(lambda y: ((torch.from_numpy(DENSE) @ y) ** 3).sum())(x).sum()

    h = torch.ones(4, 1)
    torch.testing.assert_close(torch.func.grad(slope)(h), torch.func.grad(dense_slope)(h))


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (0, 4)])
def test_a_matrix_without_entries(shape):
    empty = SparseMatrix(sparse.csr_array(shape, dtype=np.float32), CPU)
    h = torch.ones(shape[1], 2)
    assert torch.equal(empty @ h, torch.zeros(shape[0], 2))
    assert torch.equal(torch.func.grad(lambda x: (empty @ x).sum())(h), torch.zeros(shape[1], 2))
