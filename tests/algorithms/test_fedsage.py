import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedsage import FedSage
from fedgraph_sim.algorithms.globsage import GlobSage
from fedgraph_sim.algorithms.local import Local
from fedgraph_sim.algorithms.locsage import LocSage
from fedgraph_sim.algorithms.nn.mending import LayeredGraph
from fedgraph_sim.engine.algorithm import Client
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream


@pytest.fixture(scope="module")
def graphs(make_graph):
    rng = np.random.default_rng(0)

    def one(num_nodes):
        ends = np.unique(np.sort(rng.integers(0, num_nodes, (2, 3 * num_nodes)), axis=0), axis=1)
        ends = ends[:, ends[0] != ends[1]]
        role = rng.integers(1, 4, num_nodes).astype(np.int8)
        x = rng.random((num_nodes, 5), np.float32)
        return make_graph(num_nodes, list(zip(*ends, strict=True)), both_ways=True, role=role, x=x)

    return [one(30), one(22)]


def a_client(algorithm, graph, make_federation):
    fed = make_federation(algorithm, [graph])
    algorithm.setup(fed)
    (state,) = fed._runner.states().values()
    tensors = GraphTensors.of(graph, torch.device("cpu"))
    return Client(data=tensors, random=RandomStream(torch.tensor(9)), state=state)


@pytest.mark.parametrize(("kind", "plain"), [(FedSage, FedAvg), (LocSage, Local), (GlobSage, Local)])
def test_full_batches_of_all_neighbours_are_full_batch_training(graphs, make_federation, train, kind, plain):
    fields = {"hidden": 8, "dropout": 0.0, "lr": 0.01, "weight_decay": 0.0, "local_epochs": 2}
    same = {"weighting": "uniform"} if plain is FedAvg else {}
    states = []
    for algorithm in (kind(**fields, sizes=(0, 0), batch_size=0), plain(model="sage", **fields, **same)):
        fed = make_federation(algorithm, graphs)
        train(algorithm, fed, 3)
        states.append([state["weights"] for state in fed._runner.states().values()])
    for own, other in zip(*states, strict=True):
        for name in own:
            torch.testing.assert_close(own[name], other[name], rtol=1e-5, atol=1e-6)


def test_the_model_has_a_layer_for_each_size(graphs, make_federation, train):
    algorithm = FedSage(hidden=8, sizes=(4, 0, 2), batch_size=5)
    fed = make_federation(algorithm, graphs)
    weights = train(algorithm, fed, 2)["weights"]
    assert {name.split(".")[0] for name in weights} == {"conv1", "conv2", "conv3", "head"}
    h = torch.from_numpy(graphs[0].x)
    adjacency = GraphTensors.of(graphs[0], torch.device("cpu")).mean_adjacency @ torch.eye(30)
    for layer in ("conv1", "conv2", "conv3"):
        own, neighbor, bias = (weights[f"{layer}.{part}"] for part in ("self.weight", "neighbor.weight", "bias"))
        h = torch.relu(torch.cat([h, adjacency @ h], dim=1) @ torch.cat([own, neighbor]) + bias)
    expected = h @ weights["head.weight"] + weights["head.bias"]
    actual = algorithm.logits(weights, GraphTensors.of(graphs[0], torch.device("cpu")))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch_size", [0, 1, 4, 100])
def test_an_epoch_visits_each_training_node_once_in_another_order_each_time(graphs, make_federation, batch_size):
    algorithm = FedSage(hidden=8, batch_size=batch_size)
    client = a_client(algorithm, graphs[0], make_federation)
    orders = []
    for number in range(2):
        batches = [graph.train_mask for graph, _ in algorithm.batches(client, client.random.fold(number))]
        sizes = [int(batch.sum()) for batch in batches]
        assert torch.equal(torch.stack(batches).sum(dim=0), client.graph.train_mask.long())
        assert set(sizes[:-1]) <= {batch_size}
        orders.append(torch.stack(batches))
    if batch_size in (1, 4):
        assert not torch.equal(*orders)


def test_every_step_and_layer_draws_neighbours_of_its_own(graphs, make_federation):
    algorithm = FedSage(hidden=8, batch_size=4)
    client = a_client(algorithm, graphs[0], make_federation)
    seen = [graph for graph, _ in algorithm.batches(client, client.random)]
    assert all(isinstance(graph, LayeredGraph) for graph in seen)
    matrices = [layer.mean_adjacency @ torch.eye(30) for graph in seen[:2] for layer in graph.layers]
    assert all(not torch.equal(a, b) for at, a in enumerate(matrices) for b in matrices[:at])
    neighbors = client.graph.adjacency.toarray() > 0
    for matrix in matrices:
        assert not (matrix.numpy()[~neighbors]).any()
        linked = neighbors.any(axis=1)
        assert matrix.sum(dim=1).numpy() == pytest.approx(linked.astype(float), abs=1e-6)


@pytest.mark.parametrize("sizes", [(), (5, -1)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="sizes"):
        FedSage(sizes=sizes)
