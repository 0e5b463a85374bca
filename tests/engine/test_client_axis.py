import torch

from fedgraph_sim.engine.client_axis import put, weighted_sum

TREE = {"a": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "b": {"c": torch.tensor([1.0, 10.0, 100.0])}}


def test_put_replaces_some_clients_and_leaves_the_tree_alone():
    parts = {"a": torch.tensor([[7.0, 7.0], [8.0, 8.0]]), "b": {"c": torch.tensor([7.0, 8.0])}}
    result = put(TREE, (2, 0), parts)
    assert result["a"].tolist() == [[8, 8], [3, 4], [7, 7]]
    assert result["b"]["c"].tolist() == [8, 10, 7]
    assert TREE["a"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_put_of_all_in_order_is_the_parts_themselves():
    parts = {"a": torch.zeros(3, 2), "b": {"c": torch.zeros(3)}}
    assert put(TREE, (0, 1, 2), parts)["a"] is parts["a"]
    assert put(TREE, (2, 1, 0), TREE)["b"]["c"].tolist() == [100, 10, 1]


def test_put_writes_to_no_memory_that_several_clients_share():
    shared = {"w": torch.zeros(2).expand(3, 2)}
    assert put(shared, (1,), {"w": torch.ones(1, 2)})["w"].tolist() == [[0, 0], [1, 1], [0, 0]]


def test_one_sum_or_several():
    assert weighted_sum(TREE, torch.tensor([1.0, 0.0, 2.0]))["a"].tolist() == [11, 14]
    sums = weighted_sum(TREE, torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]))
    assert sums["a"].tolist() == [[11, 14], [3, 4]]
    assert sums["b"]["c"].tolist() == [201, 10]
