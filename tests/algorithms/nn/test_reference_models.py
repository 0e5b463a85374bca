import pytest
import torch
from torch_geometric import nn

from fedgraph_sim.algorithms.centralized import Centralized
from fedgraph_sim.algorithms.nn.models import MLP
from fedgraph_sim.algorithms.nn.reference_models import APPNP, GAT, HEADS
from fedgraph_sim.engine.batch import Batch
from fedgraph_sim.engine.graph_tensors import GraphTensors

CPU = torch.device("cpu")
HIDDEN = 16
ENTRIES = [(0, 1), (1, 0), (1, 2), (2, 1), (3, 0), (0, 3)]


def drawn(kind):
    weights = kind(hidden=HIDDEN).init(2, 3, torch.Generator().manual_seed(0))
    return {key: leaf + 0.1 if leaf.dim() == 1 else leaf for key, leaf in weights.items()}


@pytest.mark.parametrize("entries", [ENTRIES, []])
def test_appnp_equals_that_of_torch_geometric(entries, make_graph):
    graph = make_graph(5, entries)
    weights, tensors = drawn(APPNP), GraphTensors.of(graph, CPU)
    h = MLP(hidden=HIDDEN)(weights, tensors)
    expected = nn.APPNP(K=10, alpha=0.1)(h, torch.from_numpy(graph.edge_index))
    torch.testing.assert_close(APPNP(hidden=HIDDEN)(weights, tensors), expected)


@pytest.mark.parametrize("entries", [ENTRIES, [], [(4, 4), (0, 1)]])
def test_gat_equals_that_of_torch_geometric(entries, make_graph):
    graph = make_graph(5, entries)
    weights, width = drawn(GAT), HIDDEN // HEADS
    h = torch.from_numpy(graph.x)
    for name, size in (("conv1", 2), ("conv2", HIDDEN)):
        conv = nn.GATConv(size, width, heads=HEADS)
        # There a head's entries lie together, here the heads of an entry do.
        matrix = weights[f"{name}.weight"].view(size, width, HEADS).transpose(1, 2).reshape(size, HIDDEN)
        conv.lin.weight.data = matrix.T
        conv.att_src.data, conv.att_dst.data = (weights[f"{name}.{end}"].T[None] for end in ("source", "target"))
        conv.bias.data = weights[f"{name}.bias"].view(width, HEADS).T.reshape(-1)
        h = torch.relu(conv(h, torch.from_numpy(graph.edge_index)))
        h = h.view(-1, HEADS, width).transpose(1, 2).reshape(-1, HIDDEN)
    expected = h @ weights["head.weight"] + weights["head.bias"]
    torch.testing.assert_close(GAT(hidden=HIDDEN)(weights, GraphTensors.of(graph, CPU)), expected)


@pytest.mark.parametrize("kind", [APPNP, GAT])
def test_several_graphs_at_once_give_what_each_gives(kind, make_graph):
    graphs = [GraphTensors.of(make_graph(n, entries), CPU) for n, entries in ((5, ENTRIES), (4, [(0, 1)]), (1, []))]
    weights, batch = drawn(kind), Batch.of(graphs)

    def loss(weights, graph):
        return (kind(hidden=HIDDEN)(weights, graph).square() * graph.train_mask[:, None]).sum()

    gradient = torch.func.grad(loss)
    together = torch.vmap(lambda own: gradient(weights, batch.one(own)))(batch.tensors())
    for place, graph in enumerate(graphs):
        for name, leaf in gradient(weights, graph).items():
            torch.testing.assert_close(together[name][place], leaf, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["appnp", "gat"])
def test_one_party_trains_them(model, path_graphs, make_federation, train):
    algorithm = Centralized(model=model, hidden=HIDDEN, lr=0.05, dropout=0.0, weight_decay=0.0)
    losses = []
    for rounds in (1, 30):
        fed = make_federation(algorithm, path_graphs[:1], batched=True)
        train(algorithm, fed, rounds)
        losses.append(float(fed.call(algorithm.evaluate).tree["train_loss"][0, 0]))
    assert losses[1] < 0.5 * losses[0]


def test_heads_must_fit():
    with pytest.raises(ValueError, match="multiple of the 8 heads"):
        Centralized(model="gat", hidden=12)
