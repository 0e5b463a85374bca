import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.nn import SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from fedgraph_sim.engine.graph_tensors import GraphTensors

CPU = torch.device("cpu")
TRIANGLE = [(0, 1), (1, 2), (2, 0)]
GRAPHS = {
    "undirected with an isolated node": {"num_nodes": 4, "entries": TRIANGLE, "both_ways": True},
    "directed": {"num_nodes": 4, "entries": [*TRIANGLE, (3, 0)]},
    "weighted": {"num_nodes": 3, "entries": TRIANGLE, "edge_weight": np.array([0.5, 2.0, 3.0], np.float32)},
    "parallel edges": {"num_nodes": 3, "entries": [(0, 1), (0, 1), (2, 1)]},
    "no edges": {"num_nodes": 3, "entries": []},
    "one node": {"num_nodes": 1, "entries": []},
}


@pytest.fixture(params=GRAPHS)
def graph(request, make_graph):
    return make_graph(**GRAPHS[request.param])


def dense(matrix):
    return matrix @ torch.eye(matrix.shape[1])


def test_normalized_adjacency_is_that_of_gcn(graph):
    weight = None if graph.edge_weight is None else torch.from_numpy(graph.edge_weight)
    edges, weights = gcn_norm(torch.from_numpy(graph.edge_index), weight, graph.num_nodes)
    expected = to_dense_adj(edges, edge_attr=weights, max_num_nodes=graph.num_nodes)[0].T
    torch.testing.assert_close(dense(GraphTensors.of(graph, CPU).normalized_adjacency), expected)


def test_mean_adjacency_is_that_of_sage(graph):
    if graph.edge_weight is not None:
        pytest.skip("torch_geometric's SAGEConv takes no weights")
    conv = SAGEConv(graph.num_nodes, graph.num_nodes, root_weight=False, bias=False)
    conv.lin_l.weight.data = torch.eye(graph.num_nodes)
    expected = conv(torch.eye(graph.num_nodes), torch.from_numpy(graph.edge_index))
    torch.testing.assert_close(dense(GraphTensors.of(graph, CPU).mean_adjacency), expected)


def test_mean_adjacency_weighs_neighbours(make_graph):
    graph = make_graph(3, [(0, 2), (1, 2)], edge_weight=np.array([1.0, 3.0], np.float32))
    assert dense(GraphTensors.of(graph, CPU).mean_adjacency).tolist() == [[0, 0, 0], [0, 0, 0], [0.25, 0.75, 0]]


def test_edges_of_weight_zero_give_no_mean(make_graph):
    graph = make_graph(2, [(0, 1)], edge_weight=np.zeros(1, np.float32))
    assert dense(GraphTensors.of(graph, CPU).mean_adjacency).tolist() == [[0, 0], [0, 0]]


def test_masks_follow_the_roles(make_graph):
    tensors = GraphTensors.of(make_graph(4, [], role=np.array([0, 1, 2, 3], np.int8)), CPU)
    assert tensors.train_mask.tolist() == [False, True, False, False]
    assert tensors.val_mask.tolist() == [False, False, True, False]
    assert tensors.test_mask.tolist() == [False, False, False, True]


def test_sparse_features_multiply_like_dense_ones(make_graph):
    x = np.array([[0, 2, 0], [0, 0, 0]], np.float32)
    w = torch.arange(6.0).reshape(3, 2)
    tensors = GraphTensors.of(make_graph(2, [], x=sparse.csr_array(x)), CPU)
    assert torch.equal(tensors.x @ w, torch.from_numpy(x) @ w)


def test_numbers_and_edges_are_kept(graph):
    tensors = GraphTensors.of(graph, CPU)
    assert tensors.node_id.tolist() == graph.node_id.tolist()
    edges = tensors.adjacency.toarray()
    assert edges.sum() == (graph.num_edges if graph.edge_weight is None else graph.edge_weight.sum())
    for source, target in graph.edge_index.T:
        assert edges[target, source] > 0
