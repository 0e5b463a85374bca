from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.engine.algorithm import Client
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream


def test_each_local_epoch_has_its_own_dropout(path_graphs, make_federation):
    algorithm = FedAvg(hidden=8, lr=0.05, local_epochs=3)
    graph = GraphTensors.of(path_graphs[0], torch.device("cpu"))
    weights = algorithm.initial_weights(make_federation(algorithm, path_graphs))
    stream = RandomStream(torch.tensor(5))
    client = Client(data=graph, random=stream, state={"optimizer": algorithm.optimizer.init(weights)})
    trained = algorithm.fit(client, weights)
    parameters = {name: leaf.clone().requires_grad_() for name, leaf in weights.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=0.05, weight_decay=algorithm.weight_decay)
    for epoch in range(3):
        optimizer.zero_grad()
        logits = algorithm.network(parameters, graph, stream.fold(epoch))
        torch.nn.functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimizer.step()
    for name, parameter in parameters.items():
        torch.testing.assert_close(trained[name], parameter.detach(), rtol=1e-5, atol=1e-5)
        assert client.state["weights"][name] is trained[name]


def test_evaluation_draws_nothing(path_graphs, make_federation):
    algorithm = FedAvg(hidden=8)
    fed = make_federation(algorithm, path_graphs)
    algorithm.setup(fed)
    first, second = (fed.call(algorithm.evaluate).tree for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert first["train_accuracy"][:, 1].tolist() == [2, 1]


@pytest.fixture
def linked_graphs(make_graph):
    """Two random graphs with links of every role."""
    rng = np.random.default_rng(0)
    return [make_graph(30, rng.integers(0, 30, (60, 2)).tolist(), both_ways=True) for _ in range(2)]


@pytest.mark.parametrize(("model", "num_matrices"), [("gcn", 1), ("sage", 2), ("mlp", 1)])
def test_bytes_of_links_are_those_of_two_layers(linked_graphs, make_federation, train, model, num_matrices):
    algorithm = FedAvg(task="link", hidden=8, model=model)
    fed = make_federation(algorithm, linked_graphs)
    train(algorithm, fed, 3)
    num_features = 2
    parameters = num_matrices * (num_features * 8 + 8 * 8) + 8 + 8
    assert fed.ledger.total("up", "train") == fed.ledger.total("down", "train") == 3 * 2 * parameters * 4
    assert fed.ledger.total("down", "setup") == 2 * parameters * 4
    assert fed.ledger.total("up", "setup") == 2 * 8


def test_clients_count_by_their_training_links(linked_graphs, make_federation):
    algorithm = FedAvg(task="link", hidden=8)
    fed = make_federation(algorithm, linked_graphs)
    server = algorithm.setup(fed)
    fed.begin(round=0, kind="eval")
    counts = fed.call(algorithm.evaluate).tree["train_auc"][:, 1]
    assert (counts > 20).all()
    assert server["client_weights"].tolist() == counts.tolist()


@pytest.mark.parametrize("model", ["gcn", "sage", "mlp"])
@pytest.mark.parametrize("batched", [False, True])
def test_clients_without_links_to_learn_return_what_they_received(
    linked_graphs, make_graph, make_federation, train, model, batched
):
    odd = [make_graph(28, []), make_graph(1, []), make_graph(2, [(0, 1)]), make_graph(1, [(0, 0)])]
    algorithm = FedAvg(task="link", hidden=4, model=model, weight_decay=0.1, local_epochs=2)
    fed = make_federation(algorithm, [*linked_graphs, *odd], batched=batched)
    server = train(algorithm, fed, 3)
    replies = fed.call(algorithm.train, server["weights"])
    for client in range(6):
        same = all(torch.equal(leaf, server["weights"][name]) for name, leaf in replies[client]["weights"].items())
        assert same == (client >= 2)
    scores = fed.call(algorithm.evaluate).tree
    assert all(torch.isfinite(leaf).all() for leaf in scores.values())
    assert (scores["train_auc"][:2, 1] > 0).all()
    assert not scores["train_auc"][2:].any()
    alone = train(algorithm, make_federation(algorithm, linked_graphs, batched=batched), 3)
    for name, leaf in server["weights"].items():
        torch.testing.assert_close(alone["weights"][name], leaf, rtol=1e-5, atol=1e-5)


def test_every_epoch_draws_other_pairs_without_a_link(linked_graphs, make_federation):
    algorithm = FedAvg(task="link", hidden=8, dropout=0.0, local_epochs=2)
    fed = make_federation(algorithm, linked_graphs[:1])
    graph = GraphTensors.of(linked_graphs[0], torch.device("cpu"), Split().links(seed=0))
    weights = algorithm.initial_weights(fed)
    stream = RandomStream(torch.tensor(5))
    client = Client(data=graph, random=stream, state={"optimizer": algorithm.optimizer.init(weights)})
    trained = algorithm.fit(client, weights)
    parameters = {name: leaf.clone().requires_grad_() for name, leaf in weights.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=0.01, weight_decay=algorithm.weight_decay)
    for epoch in range(2):
        optimizer.zero_grad()
        draws = stream.fold(epoch).fold(-1)
        algorithm.objective.loss(algorithm.network(parameters, graph), graph, draws).backward()
        optimizer.step()
    assert not torch.equal(*(graph.links.draw(stream.fold(epoch).fold(-1)) for epoch in (0, 1)))
    for name, parameter in parameters.items():
        torch.testing.assert_close(trained[name], parameter.detach(), rtol=1e-5, atol=1e-5)


def test_links_are_learned(linked_graphs, make_federation, train):
    algorithm = FedAvg(task="link", hidden=16, dropout=0.0)
    graphs = [replace(graph, x=np.eye(30, dtype=np.float32)) for graph in linked_graphs]

    def area(rounds):
        fed = make_federation(algorithm, graphs[:1], batched=True)
        train(algorithm, fed, rounds)
        total, count = fed.call(algorithm.evaluate).tree["train_auc"][0].tolist()
        return total / count

    assert area(30) > 0.95 > area(1)
