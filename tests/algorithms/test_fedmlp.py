import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedmlp import FedMlp
from fedgraph_sim.algorithms.mlp import Mlp

HIDDEN = 4


@pytest.fixture(scope="module")
def clients(make_graph):
    """A client with 3 training samples and a test sample, one with a training sample, and one that only tests."""
    rng = np.random.default_rng(0)

    def client(roles):
        x = rng.standard_normal((len(roles), 5)).astype(np.float32)
        return make_graph(len(roles), [], x=x, role=np.array(roles, np.int8))

    return [client([1, 3, 1, 1]), client([1]), client([3, 3])]


def trained(chosen, graph, weights, steps):
    """Train by torch's own SGD on all training samples."""
    mask = graph.role == 1
    x, y = torch.from_numpy(graph.x[mask]), torch.from_numpy(graph.y[mask])
    parameters = {name: leaf.clone().requires_grad_() for name, leaf in weights.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=chosen.lr)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(chosen.encoder(parameters, x), y).backward()
        optimizer.step()
    return {name: leaf.detach() for name, leaf in parameters.items()}


@pytest.mark.parametrize("batched", [False, True])
def test_a_round_is_the_mean_of_plain_gradient_descent(clients, make_federation, train, batched):
    chosen = FedMlp(hidden=HIDDEN, local_epochs=3, lr=0.3)
    fed = make_federation(chosen, clients, batched=batched)
    weights = chosen.initial_weights(fed)
    ends = [trained(chosen, graph, weights, 3) for graph in clients[:2]]
    found = train(chosen, fed, 1)["weights"]
    for name, leaf in found.items():
        torch.testing.assert_close(leaf, (ends[0][name] + ends[1][name]) / 2, rtol=1e-5, atol=1e-6)


def test_on_its_own_a_client_goes_on_from_where_it_was(clients, make_federation, train):
    chosen = Mlp(hidden=HIDDEN, local_epochs=2, lr=0.3)
    fed = make_federation(chosen, clients, batched=True)
    weights = chosen.initial_weights(fed)
    train(chosen, fed, 3)
    states = fed._runner.states()
    for client, graph in enumerate(clients[:2]):
        for name, leaf in trained(chosen, graph, weights, 6).items():
            torch.testing.assert_close(states[client]["weights"][name], leaf, rtol=1e-5, atol=1e-6)
    assert torch.equal(states[2]["weights"]["layer1.weight"], weights["layer1.weight"])
    assert fed.ledger.total("up", "train") == fed.ledger.total("down", "train") == 0


def test_ledger(clients, make_federation, train):
    chosen, rounds, model = FedMlp(hidden=HIDDEN), 3, 4 * (5 * HIDDEN + HIDDEN * 2)
    fed = make_federation(chosen, clients)
    train(chosen, fed, rounds)
    # Who has nothing to train on is not asked.
    assert fed.ledger.total("down", "train") == fed.ledger.total("up", "train") == rounds * 2 * model
    assert (fed.ledger.total("up", "setup"), fed.ledger.total("down", "setup")) == (3 * 4 * 8, 3 * 8)


@pytest.mark.parametrize("batched", [False, True])
def test_a_step_is_taken_on_whole_batches_alone(make_graph, make_federation, batched):
    """Of 5 training samples and batches of 2, a pass takes two steps on four different samples."""
    graphs = [
        make_graph(count, [], x=np.eye(count, 5, dtype=np.float32), role=np.ones(count, np.int8)) for count in (5, 1)
    ]
    chosen = FedMlp(hidden=HIDDEN, num_layers=1, lr=1.0, local_epochs=1, batch_size=2)
    fed = make_federation(chosen, graphs, batched=batched)
    server = chosen.setup(fed)
    fed.publish(server["weights"])
    used = set()
    for number in range(1, 6):
        fed.begin(round=number, kind="train")
        replies = fed.call(chosen.train)
        changes = [
            replies[client]["weights"]["layer1.weight"] - server["weights"]["layer1.weight"] for client in (0, 1)
        ]
        moved = changes[0].abs().sum(dim=1).gt(0).tolist()
        used.add(tuple(moved))
        assert sum(moved) == 4
        assert changes[1].abs().sum() > 0  # a client with less than a batch has one step with what it has
    assert len(used) > 1


def test_its_global_model_is_what_everybody_is_judged_by(clients, make_federation, train):
    chosen = FedMlp(hidden=HIDDEN, local_epochs=2)
    fed = make_federation(chosen, clients)
    server = train(chosen, fed, 2)
    own, given = chosen.ask_for_scores(fed, server).tree, fed.call(chosen.evaluate, chosen.global_model(server)).tree
    assert all(torch.equal(leaf, given[name]) for name, leaf in own.items())
