import pytest
import torch
from scipy import sparse

from fedgraph_sim.algorithms.nn import nearest as module
from fedgraph_sim.algorithms.nn.nearest import features_of, nearest, squared_distances
from fedgraph_sim.engine.sparse import SparseMatrix


@pytest.mark.parametrize("entries", [1, 40, 1 << 24])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_nearest_is_that_of_all_distances_in_blocks_of_any_size(monkeypatch, entries, is_sparse):
    monkeypatch.setattr(module, "MAX_ENTRIES", entries)
    x, rows = torch.rand(17, 6), torch.rand(9, 6)
    matrix = SparseMatrix(sparse.csr_array(x.numpy()), torch.device("cpu")) if is_sparse else x
    expected = torch.cdist(rows, x)
    node = nearest(rows, matrix)
    assert torch.equal(node, expected.argmin(dim=1))
    torch.testing.assert_close(squared_distances(rows, matrix, node), expected.min(dim=1).values.square())
    allowed = torch.rand(9, 17) < 0.3
    allowed[:, 0] = True
    expected = expected.masked_fill(~allowed, torch.inf)
    assert torch.equal(nearest(rows, matrix, allowed), expected.argmin(dim=1))


def test_the_distance_has_the_gradient_of_the_minimum():
    x, rows = torch.rand(12, 5), torch.rand(4, 5, requires_grad=True)
    squared_distances(rows, x, nearest(rows, x)).sum().backward()
    other = rows.detach().clone().requires_grad_()
    torch.cdist(other, x).square().min(dim=1).values.sum().backward()
    torch.testing.assert_close(rows.grad, other.grad)


def test_no_rows_have_no_nearest():
    x = SparseMatrix(sparse.csr_array(torch.eye(3).numpy()), torch.device("cpu"))
    node = nearest(torch.zeros(0, 3), x)
    assert node.shape == (0,)
    assert features_of(x, node).shape == (0, 3)
