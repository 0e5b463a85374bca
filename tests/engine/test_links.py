import numpy as np
import pytest
import torch

from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.engine.batch import Batch
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.links import Links, _pairs_without_link
from fedgraph_sim.engine.random_stream import RandomStream

CPU = torch.device("cpu")
SPLIT = LinkSplit(val=0.2, test=0.2, seed=1)
SIZES = [(30, 60), (12, 10), (30, 200), (5, 0), (1, 0), (7, 15)]


@pytest.fixture
def graphs(make_graph):
    """Graphs of different numbers of nodes and links, some without any."""
    rng = np.random.default_rng(0)
    return [make_graph(n, rng.integers(0, n, (m, 2)).tolist(), both_ways=True) for n, m in SIZES]


def columns(pairs):
    return [tuple(pair) for pair in pairs.T.tolist()]


def all_links(graph):
    return {(min(pair), max(pair)) for pair in columns(graph.edge_index) if pair[0] != pair[1]}


def non_links(graph):
    linked = all_links(graph)
    return [(low, high) for high in range(graph.num_nodes) for low in range(high) if (low, high) not in linked]


def links_of(graph):
    return GraphTensors.of(graph, CPU, SPLIT).links


def stream(key=5):
    return RandomStream(torch.tensor(key))


def test_indices_run_through_all_pairs_without_a_link(graphs):
    for graph in graphs:
        links = links_of(graph)
        expected = non_links(graph)
        assert int(links.num_unlinked) == len(expected)
        assert columns(_pairs_without_link(links.before, torch.arange(len(expected)))) == expected


@pytest.mark.parametrize("num_nodes", [60_000_000, 100_000, 3, 2])
def test_the_last_pairs_of_large_graphs_are_exact(num_nodes):
    nothing = torch.zeros(0, dtype=torch.int64)
    last = num_nodes * (num_nodes - 1) // 2 - 1
    before = last - (num_nodes - 1)  # the last pair of a graph with one node less
    assert columns(_pairs_without_link(nothing, torch.tensor([last]))) == [(num_nodes - 2, num_nodes - 1)]
    if before >= 0:
        numbers = torch.tensor([before, before + 1])
        assert columns(_pairs_without_link(nothing, numbers)) == [
            (num_nodes - 3, num_nodes - 2),
            (0, num_nodes - 1),
        ]


def test_pairs_without_a_link_are_those_of_the_whole_graph_and_differ(graphs):
    for graph in graphs:
        links = links_of(graph)
        unlinked = columns(links.unlinked)
        assert len(unlinked) == len(all_links(graph)) == len(columns(links.linked))
        assert set(unlinked) <= set(non_links(graph))
        if len(unlinked) <= len(non_links(graph)):
            assert len(set(unlinked)) == len(unlinked)


def test_drawn_pairs_have_no_link_and_come_equally_often(graphs):
    graph = graphs[1]
    drawn = [pair for key in range(2000) for pair in columns(links_of(graph).draw(stream().fold(key)))]
    expected = non_links(graph)
    assert set(drawn) == set(expected)
    counts = np.array([drawn.count(pair) for pair in expected])
    mean = len(drawn) / len(expected)
    assert abs(counts - mean).max() < 5 * mean**0.5


def test_all_clients_at_once_have_the_same_links_and_draws_as_each_alone(graphs):
    tensors = [GraphTensors.of(graph, CPU, SPLIT) for graph in graphs]
    batch = Batch.of(tensors)
    keys = torch.arange(len(graphs))
    assert batch.links is not None
    drawn = torch.vmap(lambda own, key: Links(**own).draw(RandomStream(key)))(batch.links.tensors(), keys)
    for client, one in enumerate(tensors):
        count = len(one.links.train_mask)
        assert torch.equal(drawn[client, :, :count], one.links.draw(RandomStream(keys[client])))
        assert torch.equal(batch.links.linked[client, :, :count], one.links.linked)
        assert torch.equal(batch.links.unlinked[client, :, :count], one.links.unlinked)
        for name in ("train_mask", "val_mask", "test_mask"):
            mask = getattr(batch.links, name)[client]
            assert torch.equal(mask[:count], getattr(one.links, name))
            assert not mask[count:].any()


def test_nothing_is_kept_of_links_where_none_is_predicted(graphs):
    tensors = [GraphTensors.of(graph, CPU) for graph in graphs]
    assert all(one.links is None for one in tensors)
    assert "links" not in Batch.of(tensors).tensors()


def test_both_propagation_matrices_are_without_the_links_that_are_held_out(graphs):
    tensors = GraphTensors.of(graphs[0], CPU, SPLIT)
    held_out = tensors.links.linked[:, tensors.links.val_mask | tensors.links.test_mask]
    training = tensors.links.linked[:, tensors.links.train_mask]
    for matrix in (tensors.normalized_adjacency, tensors.mean_adjacency):
        dense = matrix @ torch.eye(tensors.num_nodes)
        assert held_out.shape[1] > 0
        assert not dense[held_out[0], held_out[1]].any()
        assert not dense[held_out[1], held_out[0]].any()
        assert (dense[training[0], training[1]] > 0).all()
        assert (dense[training[1], training[0]] > 0).all()
