import numpy as np
import pytest
from pydantic import ValidationError

from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.errors import ConfigError


def counts(graph):
    return [graph.count(role) for role in (Role.TRAIN, Role.VAL, Role.TEST, Role.NONE)]


@pytest.mark.parametrize(
    ("fractions", "expected"),
    [
        ({}, [20, 39, 40, 0]),  # 99 nodes: 19.8 -> 20, 39.6 -> 40, the rest validate
        ({"train": 0.1, "val": 0.1, "test": 0.1}, [10, 10, 10, 69]),
        ({"train": 1, "val": 0, "test": 0}, [99, 0, 0, 0]),
        ({"train": 0.5, "val": 0, "test": 0.5}, [50, 0, 49, 0]),
    ],
)
def test_ratio_counts(make_graph, fractions, expected):
    assert counts(Split(**fractions).apply(make_graph(99, []), seed=1)) == expected


def test_ratio_is_one_permutation_in_the_order_train_test_val(make_graph):
    graph = Split().apply(make_graph(10, []), seed=7)
    order = np.random.default_rng(7).permutation(10)
    assert graph.role[order].tolist() == [Role.TRAIN] * 2 + [Role.TEST] * 4 + [Role.VAL] * 4


def test_seed_decides(make_graph):
    graph = make_graph(50, [])
    assert (Split().apply(graph, 1).role == Split().apply(graph, 1).role).all()
    assert (Split().apply(graph, 1).role != Split().apply(graph, 2).role).any()


def test_unlabelled_nodes_have_no_role(make_graph):
    graph = make_graph(10, [], y=np.array([-1] * 5 + [0] * 5))
    split = Split().apply(graph, seed=0)
    assert counts(split) == [1, 2, 2, 5]
    assert (split.role[:5] == Role.NONE).all()


def test_stratified_counts_per_class(make_graph):
    graph = make_graph(30, [], y=np.array([0] * 10 + [1] * 20))
    split = Split(stratified=True).apply(graph, seed=0)
    assert np.bincount(split.y[split.role == Role.TRAIN]).tolist() == [2, 4]


def test_own_roles_stay(make_graph):
    graph = make_graph(3, [], role=np.array([1, 2, 3], dtype=np.int8))
    assert Split(kind="own").apply(graph, seed=0).role.tolist() == [1, 2, 3]


def test_errors(make_graph):
    with pytest.raises(ConfigError, match=r"split\.kind='own'"):
        Split(kind="own").apply(make_graph(3, [], role=np.zeros(3, dtype=np.int8)), seed=0)
    with pytest.raises(ConfigError, match=r"split\.train=0\.01 of 10 labelled nodes"):
        Split(train=0.01).apply(make_graph(10, []), seed=0)
    with pytest.raises(ValidationError, match=r"train \+ val \+ test is 1\.2"):
        Split(train=0.4)
    with pytest.raises(ValidationError):
        Split(ratio=1)
