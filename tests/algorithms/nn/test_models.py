import pytest
import torch
from scipy import sparse
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv

from fedgraph_sim.algorithms.nn.models import MODELS, NormalizedSAGE, dropout
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream

CPU = torch.device("cpu")
HIDDEN = 4


def stream(key=1):
    return RandomStream(torch.tensor(key))


def drawn(name, num_features=2, num_classes=3, hidden=HIDDEN):
    generator = torch.Generator().manual_seed(0)
    weights = MODELS[name](hidden=hidden).init(num_features, num_classes, generator)
    return {key: leaf + 0.1 if leaf.dim() == 1 else leaf for key, leaf in weights.items()}  # biases that count


def pyg_layer(name, weights, prefix, width):
    if name == "mlp":
        layer = nn.Linear(width, HIDDEN)
        layer.weight.data, layer.bias.data = weights[f"{prefix}.weight"].T, weights[f"{prefix}.bias"]
        return lambda h, edges: layer(h)
    if name == "gcn":
        conv = GCNConv(width, HIDDEN)
        conv.lin.weight.data, conv.bias.data = weights[f"{prefix}.weight"].T, weights[f"{prefix}.bias"]
        return conv
    conv = SAGEConv(width, HIDDEN)
    conv.lin_l.weight.data, conv.lin_l.bias.data = weights[f"{prefix}.neighbor.weight"].T, weights[f"{prefix}.bias"]
    conv.lin_r.weight.data = weights[f"{prefix}.self.weight"].T
    return conv


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("entries", [[(0, 1), (1, 2), (3, 0)], []])
def test_logits_equal_those_of_torch_geometric(name, entries, make_graph):
    graph = make_graph(5, entries)
    weights = drawn(name)
    h, edges = torch.from_numpy(graph.x), torch.from_numpy(graph.edge_index)
    for prefix, width in (("conv1", 2), ("conv2", HIDDEN)):
        h = torch.relu(pyg_layer(name, weights, prefix, width)(h, edges))
    expected = h @ weights["head.weight"] + weights["head.bias"]
    torch.testing.assert_close(MODELS[name](hidden=HIDDEN)(weights, GraphTensors.of(graph, CPU)), expected)


@pytest.mark.parametrize("name", MODELS)
def test_without_a_head_the_second_layer_is_the_output(name, make_graph):
    graph = GraphTensors.of(make_graph(5, [(0, 1), (1, 2), (3, 0)]), CPU)
    model, weights = MODELS[name](hidden=HIDDEN, head=False), drawn(name)
    z = model(weights, graph)
    assert (z < 0).any()
    expected = torch.relu(z) @ weights["head.weight"] + weights["head.bias"]
    torch.testing.assert_close(MODELS[name](hidden=HIDDEN)(weights, graph), expected)
    initial = model.init(2, 3, torch.Generator().manual_seed(0))
    assert set(weights) - set(initial) == {"head.weight", "head.bias"}


@pytest.mark.parametrize("name", MODELS)
def test_sparse_features_give_the_same_logits(name, make_graph):
    dense = make_graph(4, [(0, 1), (1, 2)], both_ways=True)
    thin = make_graph(4, [(0, 1), (1, 2)], both_ways=True, x=sparse.csr_array(dense.x))
    model, weights = MODELS[name](hidden=HIDDEN), drawn(name)
    expected = model(weights, GraphTensors.of(dense, CPU))
    torch.testing.assert_close(model(weights, GraphTensors.of(thin, CPU)), expected)


def test_initial_weights_have_the_published_ranges():
    weights = MODELS["gcn"](hidden=100).init(20, 3, torch.Generator().manual_seed(0))
    assert {name: tuple(leaf.shape) for name, leaf in weights.items()} == {
        "conv1.weight": (20, 100),
        "conv1.bias": (100,),
        "conv2.weight": (100, 100),
        "conv2.bias": (100,),
        "head.weight": (100, 3),
        "head.bias": (3,),
    }
    bound = (6 / 120) ** 0.5
    assert 0.95 * bound < weights["conv1.weight"].abs().max() <= bound
    assert weights["head.weight"].abs().max() <= 0.1
    assert not weights["conv1.bias"].any()


def test_dropout_keeps_the_mean_and_is_off_in_evaluation(make_graph):
    h = dropout(torch.ones(200, 200), 0.25, stream())
    assert h.unique().tolist() == pytest.approx([0, 4 / 3])
    assert h.mean().item() == pytest.approx(1, abs=5 * (0.25 / 0.75 / 40_000) ** 0.5)
    graph, weights = GraphTensors.of(make_graph(3, [(0, 1)]), CPU), drawn("gcn")
    model = MODELS["gcn"](hidden=HIDDEN, dropout=0.5)
    assert torch.equal(model(weights, graph), MODELS["gcn"](hidden=HIDDEN, dropout=0.0)(weights, graph, stream()))
    assert not torch.equal(model(weights, graph, stream(1)), model(weights, graph, stream(2)))


def test_a_normalized_sage_has_directions_before_its_head(make_graph):
    graph = GraphTensors.of(make_graph(4, [(0, 1), (1, 2)], both_ways=True), torch.device("cpu"))
    model = NormalizedSAGE(hidden=8, dropout=0.0)
    weights = model.init(2, 3, torch.Generator().manual_seed(0))
    h = torch.relu(model.layer("conv1", weights, graph, graph.x))
    h = torch.nn.functional.normalize(model.layer("conv2", weights, graph, h))
    torch.testing.assert_close(model(weights, graph), h @ weights["head.weight"] + weights["head.bias"])
    zero = {name: torch.zeros_like(leaf) for name, leaf in weights.items()}
    assert torch.isfinite(torch.func.grad(lambda weights: model(weights, graph).sum())(zero)["conv2.bias"]).all()
