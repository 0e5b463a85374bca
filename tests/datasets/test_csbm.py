import numpy as np
import pytest
from pydantic import ValidationError

from fedgraph_sim.datasets.csbm import Csbm, _pairs

ONE = {"num_communities": 1, "largest_component": False, "num_nodes": 4000, "num_features": 100}


def test_one_community_has_the_published_edge_probabilities(tmp_path):
    graph = Csbm(**ONE, degree=10, edge_signal=2).load(None, tmp_path)
    same = graph.y[graph.edge_index[0]] == graph.y[graph.edge_index[1]]
    n = graph.num_nodes
    num_same = int((np.bincount(graph.y).astype(float) ** 2).sum()) - n
    num_different = n * (n - 1) - num_same
    p_same, p_different = (10 + 2 * 10**0.5) / n, (10 - 2 * 10**0.5) / n
    for found, expected in ((same.sum(), num_same * p_same), ((~same).sum(), num_different * p_different)):
        assert abs(found - expected) < 5 * (2 * expected) ** 0.5  # entries come in pairs


def test_one_community_has_the_published_features(tmp_path):
    graph = Csbm(**ONE, feature_signal=400).load(None, tmp_path)
    sign = 2 * graph.y - 1
    direction = (sign[:, None] * graph.x).mean(axis=0)  # sqrt(mu / N) u
    noise = graph.x - sign[:, None] * direction
    assert abs(np.square(direction).sum() / (400 / 4000) - 1) < 0.5  # |u| ** 2 is 1 on average
    assert abs(noise.var() * 100 - 1) < 0.02


def test_edges_are_undirected_distinct_and_without_loops(tmp_path):
    graph = Csbm(largest_component=False, undirected=False, self_loops=False).load(None, tmp_path)
    entries = {tuple(entry) for entry in graph.edge_index.T.tolist()}
    assert len(entries) == graph.num_edges
    assert {(j, i) for i, j in entries} == entries
    assert all(i != j for i, j in entries)


def test_bridges_join_communities(tmp_path):
    graph = Csbm(largest_component=False, bridge=2).load(None, tmp_path)
    community = graph.edge_index // 200
    bridges = np.count_nonzero(community[0] != community[1])
    assert abs(bridges / graph.num_nodes - 2) < 0.2
    apart = Csbm(largest_component=False, bridge=0).load(None, tmp_path)
    assert (apart.edge_index[0] // 200 == apart.edge_index[1] // 200).all()


def test_features_mean_other_classes_in_another_group(tmp_path):
    graph = Csbm(num_groups=2, feature_signal=2000, largest_component=False).load(None, tmp_path)
    group = np.arange(graph.num_nodes) // 200 % 2
    assert (graph.y // 2 == group).all()
    means = [graph.x[graph.y == label].mean(axis=0) for label in range(4)]
    alike, opposed = np.corrcoef(means)[0, 2], np.corrcoef(means)[0, 1]
    assert alike > 0.9
    assert opposed < -0.9


def test_pairs_are_all_distinct_ordered_pairs():
    pairs = _pairs(np.random.default_rng(0), 5, 1.0)
    assert sorted(map(tuple, pairs.T.tolist())) == [(i, j) for i in range(5) for j in range(i + 1, 5)]
    assert _pairs(np.random.default_rng(0), 1, 0.5).shape == (2, 0)


def test_the_data_seed_decides(tmp_path):
    first, again, other = (Csbm(seed=seed).load(None, tmp_path) for seed in (0, 0, 1))
    assert (first.x == again.x).all()
    assert (first.edge_index == again.edge_index).all()
    assert first.num_edges != other.num_edges
    assert Csbm(seed=0).fingerprint(None, tmp_path) != Csbm(seed=1).fingerprint(None, tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 4, "edge_signal": 2.1}, "at most sqrt"),
        ({"num_nodes": 50}, "too high for communities of 5 nodes"),
        ({"num_nodes": 5}, "num_communities=10 exceeds num_nodes=5"),
        ({"num_blocks": 2}, "Extra inputs"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        Csbm(**options)
