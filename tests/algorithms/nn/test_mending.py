import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.nn.mending import attached, layered
from fedgraph_sim.algorithms.nn.models import SAGE
from fedgraph_sim.algorithms.nn.neighbors import neighbor_lists
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream

CPU = torch.device("cpu")
EDGES = [(0, 1), (1, 2), (2, 3)]
OWNER = torch.tensor([1, 0, 1, 4])
MODEL = SAGE(hidden=8, dropout=0.0)


@pytest.fixture
def graph(make_graph):
    weight = np.array([1, 2, 0.5] * 2, np.float32)
    x = np.random.default_rng(0).random((5, 3), np.float32)
    return make_graph(5, EDGES, both_ways=True, edge_weight=weight, x=x)


@pytest.fixture
def lists(graph):
    return neighbor_lists(GraphTensors.of(graph, CPU).adjacency, CPU)


@pytest.fixture
def features():
    return torch.rand(4, 3, generator=torch.Generator().manual_seed(1))


def weights():
    return MODEL.init(3, 2, torch.Generator().manual_seed(0))


def logits(graph, lists, sizes, generated, seed=0):
    tensors = GraphTensors.of(graph, CPU)
    seen = layered(tensors, lists, sizes, RandomStream(torch.tensor(seed)), generated)
    return MODEL(weights(), seen)[: tensors.num_nodes]


def test_a_mended_graph_is_the_graph_with_its_new_nodes_linked_both_ways(graph, lists, features, make_graph):
    links = EDGES + [(int(owner), 5 + row) for row, owner in enumerate(OWNER)]
    weight = np.array([1, 2, 0.5, 1, 1, 1, 1] * 2, np.float32)
    x = np.concatenate([graph.x, features.numpy()])
    whole = make_graph(9, links, both_ways=True, edge_weight=weight, x=x)
    expected = MODEL(weights(), GraphTensors.of(whole, CPU))[:5]
    torch.testing.assert_close(logits(graph, lists, (0, 0), attached(OWNER, features, 5)), expected)


@pytest.mark.parametrize("sizes", [(0, 0), (4, 4), (0, 4)])
def test_generated_nodes_change_what_the_model_says_of_the_others_and_get_gradients(graph, lists, features, sizes):
    before = logits(graph, lists, sizes, None)
    wanted = features.clone().requires_grad_()
    after = logits(graph, lists, sizes, attached(OWNER, wanted, 5))
    assert not torch.isclose(before, after)[[0, 1, 4]].any(dim=1).all()
    after.sum().backward()
    assert (wanted.grad.abs().sum(dim=1) > 0).any()
    if sizes == (0, 0):
        assert (wanted.grad.abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("is_mended", [False, True])
def test_draws_are_the_mean_over_all_neighbours_on_average(graph, lists, features, is_mended):
    tensors = GraphTensors.of(graph, CPU)
    generated = attached(OWNER, features, 5) if is_mended else None
    values = torch.rand(5 + (4 if is_mended else 0), 2)
    seen = layered(tensors, lists, (0, 3000), RandomStream(torch.tensor(5)), generated)
    full, sampled = (layer.mean_adjacency @ values for layer in seen.layers)
    torch.testing.assert_close(sampled, full, atol=0.03, rtol=0)


def test_nothing_attached_is_the_graph_as_it_is(graph, lists):
    none = attached(torch.zeros(0, dtype=torch.long), torch.zeros(0, 3), 5)
    for sizes in ((0, 0), (2, 3)):
        torch.testing.assert_close(logits(graph, lists, sizes, none), logits(graph, lists, sizes, None))


def test_filling_up_changes_nothing(graph, lists, features):
    generated = attached(OWNER, features, 5)
    more = {"features": (2, 3), "owner": (2,)}
    filled = {
        name: torch.cat([leaf, leaf.new_zeros(more[name])]) if name in more else leaf
        for name, leaf in generated.items()
    }
    for sizes in ((0, 0), (2, 3)):
        torch.testing.assert_close(logits(graph, lists, sizes, filled), logits(graph, lists, sizes, generated))


def test_nodes_without_links_and_graphs_without_edges(make_graph, features):
    graph = make_graph(5, [], x=np.ones((5, 3), np.float32))
    lists = neighbor_lists(GraphTensors.of(graph, CPU).adjacency, CPU)
    for sizes in ((0, 0), (2, 3)):
        alone, mended = (logits(graph, lists, sizes, g) for g in (None, attached(OWNER, features, 5)))
        assert torch.isfinite(alone).all()
        assert torch.equal(alone[2:4], mended[2:4])
        assert not torch.allclose(alone[[0, 1, 4]], mended[[0, 1, 4]])
