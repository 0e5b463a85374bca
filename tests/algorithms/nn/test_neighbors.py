import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraph_sim.algorithms.nn.neighbors import NeighborSum, drawn, neighbor_lists
from fedgraph_sim.engine.random_stream import RandomStream

CPU = torch.device("cpu")


def as_dense(index, scale, num_columns):
    matrix = torch.zeros(len(index), num_columns)
    return matrix.scatter_add(1, index, scale)


def example(seed, num_rows=6, size=3, num_columns=5):
    rng = torch.Generator().manual_seed(seed)
    index = torch.randint(num_columns, (num_rows, size), generator=rng)
    return index, torch.rand(num_rows, size, generator=rng), torch.randn(num_columns, 4, generator=rng)


def test_the_sum_is_a_matrix_product_forwards_and_backwards():
    index, scale, dense = example(0)
    weight = torch.randn(6, 4)

    def value(dense):
        return ((NeighborSum(index, scale) @ dense) * weight).sum()

    matrix = as_dense(index, scale, 5)
    assert torch.allclose(NeighborSum(index, scale) @ dense, matrix @ dense, atol=1e-6)
    assert torch.allclose(torch.func.grad(value)(dense), matrix.T @ weight, atol=1e-6)


@pytest.mark.parametrize("is_shared", [False, True])
def test_all_clients_at_once_equal_one_after_another(is_shared):
    parts = [example(seed) for seed in range(3)]
    index, scale, dense = (torch.stack(leaves) for leaves in zip(*parts, strict=True))
    operand = dense[0] if is_shared else dense

    def gradient(index, scale, dense):
        return torch.func.grad(lambda dense: (NeighborSum(index, scale) @ dense).square().sum())(dense)

    together = torch.vmap(gradient, in_dims=(0, 0, None if is_shared else 0))(index, scale, operand)
    for client in range(3):
        own = dense[0] if is_shared else dense[client]
        assert torch.allclose(together[client], gradient(index[client], scale[client], own), atol=1e-5)


def test_lists_name_the_neighbours_of_each_node():
    lists = neighbor_lists(sparse.csr_array(np.array([[0, 2.0, 1.0], [0, 0, 0], [3.0, 0, 0]])), CPU)
    assert lists["degree"].tolist() == [2, 0, 1]
    assert lists["node"].tolist() == [1, 2, 0]
    assert lists["weight"].tolist() == [2, 1, 3]
    assert lists["total"].tolist() == [3, 0, 3]
    assert lists["start"].tolist() == [0, 2, 2]


def test_draws_are_uniform_over_each_nodes_neighbours():
    degree = torch.tensor([4, 1, 0])
    numbers = drawn(degree, 4000, RandomStream(torch.tensor(7)))
    assert torch.bincount(numbers[0]).tolist() == pytest.approx([1000] * 4, abs=120)
    assert not numbers[1:].any()


def test_draws_of_a_node_do_not_depend_on_nodes_after_it():
    random = RandomStream(torch.tensor(3))
    short, long = (drawn(torch.tensor(degree), 5, random) for degree in ([9, 4], [9, 4, 7, 0]))
    assert torch.equal(short, long[:2])
