import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.nn.expansion import expanded, expansion
from fedgraph_sim.engine.graph_tensors import GraphTensors

CPU = torch.device("cpu")
PATH = [(0, 1), (1, 2)]
NODE, NEIGHBOR = np.array([0, 2, 2]), np.array([0, 0, 1])  # outside node 0 is joined to 0 and 2, outside node 1 to 2
CASES = {
    "path": {"num_nodes": 3, "entries": PATH, "both_ways": True},
    "weighted, with an isolated node": {
        "num_nodes": 4,
        "entries": [*PATH, (1, 0), (2, 1)],
        "edge_weight": np.array([2.0, 3, 2, 3], np.float32),
    },
    "self loop": {"num_nodes": 3, "entries": [*PATH, (1, 0), (2, 1), (2, 2)]},
    "no edges": {"num_nodes": 3, "entries": []},
}


@pytest.fixture(params=CASES)
def graph(request, make_graph):
    return make_graph(**CASES[request.param])


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("name", ["normalized_adjacency", "mean_adjacency"])
def test_matrices_are_those_of_the_whole_expanded_graph(graph, make_graph, name, padding):
    n, weight = graph.num_nodes, np.array([1.0, 0.5, 4.0], np.float32)
    edges, scales = expansion(GraphTensors.of(graph, CPU).adjacency, NODE, NEIGHBOR, weight)
    fill = {key: torch.from_numpy(np.pad(leaf, (0, padding))) for key, leaf in edges.items()}
    own = expanded(
        GraphTensors.of(graph, CPU),
        fill,
        {key: torch.from_numpy(np.pad(leaf, (0, padding))) for key, leaf in scales.items()},
        torch.zeros(2 + padding, 3),
    )
    outside = np.stack([NEIGHBOR + n, NODE])
    old = np.ones(graph.num_edges, np.float32) if graph.edge_weight is None else graph.edge_weight
    whole = make_graph(
        n + 2,
        np.concatenate([graph.edge_index, outside, outside[::-1]], axis=1).T,
        edge_weight=np.concatenate([old, weight, weight]),
    )
    dense = torch.rand(n + len(own.outside), 3)
    expected = getattr(GraphTensors.of(whole, CPU), name) @ dense[: n + 2]
    product = getattr(own.second, name) @ dense
    torch.testing.assert_close(product[:n], expected[:n])
    assert not product[n:].any()
    assert own.num_nodes == n


def test_nothing_is_joined_to_a_graph_without_neighbours_outside(graph):
    tensors = GraphTensors.of(graph, CPU)
    empty = np.zeros(0, np.int64)
    edges, scales = expansion(tensors.adjacency, empty, empty, np.zeros(0, np.float32))
    as_tensors = [{key: torch.from_numpy(leaf) for key, leaf in part.items()} for part in (edges, scales)]
    own = expanded(tensors, *as_tensors, torch.zeros(0, 3))
    dense = torch.rand(graph.num_nodes + 1, 3)
    product = own.second.normalized_adjacency @ dense
    torch.testing.assert_close(product[:-1], tensors.normalized_adjacency @ dense[:-1])
