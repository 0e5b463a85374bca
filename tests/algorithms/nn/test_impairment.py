import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.nn.impairment import Impaired, hidden_nodes
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream

CPU = torch.device("cpu")
RANDOM = RandomStream(torch.tensor(11))


@pytest.fixture
def graph(make_graph):
    rng = np.random.default_rng(3)
    ends = np.unique(np.sort(rng.integers(0, 30, (2, 90)), axis=0), axis=1)
    ends = ends[:, ends[0] != ends[1]]
    return make_graph(30, list(zip(*ends, strict=True)), both_ways=True, x=rng.random((30, 4), np.float32))


def impaired(graph, share=0.3):
    return Impaired.of(GraphTensors.of(graph, CPU), hidden_nodes(graph.num_nodes, share, RANDOM))


def test_hidden_nodes_lose_their_links_and_their_roles(graph):
    known = impaired(graph)
    hidden = known.hidden.numpy()
    assert hidden.sum() == 9
    whole = GraphTensors.of(graph, CPU).adjacency.toarray()
    seen = np.where(hidden[:, None] | hidden, 0, whole)
    assert (known.graph.adjacency.toarray() == seen).all()
    mean = known.graph.mean_adjacency @ torch.eye(30)
    torch.testing.assert_close(mean, torch.from_numpy(seen / np.maximum(seen.sum(1, keepdims=True), 1)).float())
    assert torch.equal(known.graph.train_mask, ~known.hidden)
    expected = np.where(hidden, 0, (whole * hidden).sum(axis=1))
    assert known.num_missing().tolist() == expected.tolist()


def test_distances_are_minima_over_hidden_neighbours(graph):
    known = impaired(graph)
    whole, hidden, x = GraphTensors.of(graph, CPU).adjacency.toarray(), known.hidden.numpy(), torch.from_numpy(graph.x)
    node = (~known.hidden).nonzero().flatten().repeat(3)
    features = torch.rand(len(node), 4)
    for last, chosen in ((0, slice(None)), (2, slice(0, 2))):
        expected = []
        for row, v in enumerate(node.tolist()):
            targets = np.flatnonzero(whole[v] * hidden)[chosen]
            distances = [float((features[row] - x[u]).square().sum()) for u in targets] or [0.0]
            expected.append(distances[-1] if last else min(distances))
        torch.testing.assert_close(known.distances(node, features, last=last), torch.tensor(expected))


def test_a_batch_is_of_visible_nodes_each_once(graph):
    known = impaired(graph)
    visible = set((~known.hidden).nonzero().flatten().tolist())
    batch = known.batch(8, RANDOM).tolist()
    assert len(set(batch)) == 8
    assert set(batch) < visible
    assert set(known.batch(0, RANDOM).tolist()) == set(known.batch(100, RANDOM).tolist()) == visible
    assert set(known.batch(8, RANDOM.fold(1)).tolist()) != set(batch)


@pytest.mark.parametrize("num_nodes", [1, 2, 7])
def test_graphs_with_nothing_to_hide(make_graph, num_nodes):
    assert not hidden_nodes(1, 0.9, RANDOM).any()
    known = impaired(make_graph(num_nodes, []), share=0.9)
    node = known.batch(0, RANDOM)
    assert len(node) >= 1
    assert not known.num_missing().any()
    assert known.distances(node, torch.rand(len(node), 2)).tolist() == [0] * len(node)
    assert known.distances(node, torch.rand(len(node), 2), last=3).tolist() == [0] * len(node)
