import numpy as np
import pytest
from scipy import sparse

from fedgraph_sim.datasets import preprocess
from fedgraph_sim.datasets.karate import Karate


def test_symmetrize_adds_reverses_and_drops_duplicates(make_graph):
    graph = preprocess.symmetrize(make_graph(3, [(0, 1), (0, 1), (1, 0), (2, 1)]))
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_symmetrize_keeps_the_largest_weight(make_graph):
    graph = make_graph(3, [(0, 1), (1, 0), (2, 1)], edge_weight=np.array([1, 3, 2], dtype=np.float32))
    assert preprocess.symmetrize(graph).edge_weight.tolist() == [3, 3, 2, 2]


@pytest.mark.parametrize("weight", [None, np.array([2, 3], dtype=np.float32)])
def test_self_loops(make_graph, weight):
    graph = make_graph(2, [(0, 0), (0, 1)], edge_weight=weight)
    without = preprocess.without_self_loops(graph)
    with_loops = preprocess.with_self_loops(graph)
    assert without.edge_index.T.tolist() == [[0, 1]]
    assert with_loops.edge_index.T.tolist() == [[0, 1], [0, 0], [1, 1]]
    if weight is not None:
        assert without.edge_weight.tolist() == [3]
        assert with_loops.edge_weight.tolist() == [3, 1, 1]


def test_largest_component_ignores_direction(make_graph):
    graph = preprocess.largest_component(make_graph(6, [(0, 1), (3, 2), (3, 5)]))
    assert graph.node_id.tolist() == [2, 3, 5]
    assert graph.edge_index.T.tolist() == [[1, 0], [1, 2]]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_normalize_features_leaves_small_rows(kind):
    x = kind(np.array([[1, 3], [0, 0], [0.25, 0]], dtype=np.float32))
    normal = preprocess.normalize_features(x)
    dense = normal.toarray() if isinstance(normal, sparse.csr_array) else normal
    assert dense.tolist() == [[0.25, 0.75], [0, 0], [0.25, 0]]
    assert dense.dtype == np.float32


def test_normalize_features_equals_pyg():
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data
    from torch_geometric.transforms import NormalizeFeatures

    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    expected = NormalizeFeatures()(Data(x=torch.from_numpy(x.copy()))).x.numpy()
    np.testing.assert_allclose(preprocess.normalize_features(x), expected, rtol=1e-6)


def test_compact_features_by_share_of_non_zeros():
    x = np.zeros((4, 4), dtype=np.float64)
    x[0, :3] = 1
    assert isinstance(preprocess.compact_features(x), sparse.csr_array)
    x[0, 3] = 1
    assert isinstance(preprocess.compact_features(x), np.ndarray)


def test_load_numbers_the_remaining_nodes(tmp_path):
    graph = Karate(self_loops=True).load(None, tmp_path)
    assert (graph.num_nodes, graph.num_edges) == (34, 2 * 78 + 34)
    assert graph.node_id.tolist() == list(range(34))
