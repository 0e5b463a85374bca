import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.engine.graph_tensors import GraphTensors

NONE, TRAIN = 0, 1


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def close(one, other, tolerance=1e-6):
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("weighting", ["num_train", "uniform"])
def test_a_round_averages_the_clients_weights(path_graphs, make_federation, train, weighting):
    algorithm = FedAvg(hidden=4, weighting=weighting)
    fed = make_federation(algorithm, path_graphs)
    server = algorithm.setup(fed)
    fed.begin(round=1, kind="train")
    first, second = fed.call(algorithm.train, server["weights"]).values()
    share = 2 / 3 if weighting == "num_train" else 1 / 2  # the paths have 2 and 1 training nodes
    expected = {
        name: share * first["weights"][name] + (1 - share) * second["weights"][name] for name in first["weights"]
    }
    close(train(algorithm, make_federation(algorithm, path_graphs), 1)["weights"], expected)


def test_one_client_trains_like_plain_adam(path_graphs, make_federation, train):
    algorithm = FedAvg(hidden=4, dropout=0.0, lr=0.05, weight_decay=0.1, local_epochs=2)
    graph = GraphTensors.of(path_graphs[0], torch.device("cpu"))
    fed = make_federation(algorithm, path_graphs[:1])
    parameters = {name: leaf.clone().requires_grad_() for name, leaf in algorithm.initial_weights(fed).items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=0.05, weight_decay=0.1)
    for _ in range(3 * 2):
        optimizer.zero_grad()
        logits = algorithm.network(parameters, graph)
        torch.nn.functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimizer.step()
    close(train(algorithm, fed, 3)["weights"], parameters, tolerance=1e-5)


def test_a_client_without_training_nodes_returns_what_it_received(path_graphs, make_graph, make_federation, train):
    algorithm = FedAvg(hidden=4, weight_decay=0.1, local_epochs=3)
    idle = make_graph(3, [(0, 1)], role=np.zeros(3, np.int8))
    fed = make_federation(algorithm, [path_graphs[0], idle])
    server = algorithm.setup(fed)
    for number in (1, 2):
        fed.begin(round=number, kind="train")
        replies = fed.call(algorithm.train, server["weights"])
        assert same(replies[1]["weights"], server["weights"])
        assert not same(replies[0]["weights"], server["weights"])
    alone = train(algorithm, make_federation(algorithm, path_graphs[:1]), 3)
    assert same(train(algorithm, make_federation(algorithm, [path_graphs[0], idle]), 3)["weights"], alone["weights"])


@pytest.mark.parametrize("model", ["gcn", "sage", "mlp"])
@pytest.mark.parametrize("batched", [False, True])
def test_odd_clients_stay_finite(path_graphs, make_graph, make_federation, train, model, batched):
    odd = [
        make_graph(3, []),
        make_graph(1, []),
        make_graph(2, [(0, 1)], y=np.array([1, 1])),
        make_graph(2, [(0, 1)], y=np.array([-1, -1]), role=np.zeros(2, np.int8)),
    ]
    algorithm = FedAvg(hidden=4, model=model, local_epochs=2)
    fed = make_federation(algorithm, [*path_graphs, *odd], batched=batched)
    server = train(algorithm, fed, 3)
    assert all(torch.isfinite(leaf).all() for leaf in server["weights"].values())
    fed.begin(round=3, kind="eval")
    for replies in (fed.call(algorithm.evaluate), fed.call(algorithm.evaluate, server["weights"])):
        assert replies.tree["train_loss"].shape == (6, 2)
        assert torch.isfinite(replies.tree["train_loss"]).all()
        assert replies.tree["train_accuracy"][:, 1].tolist() == [2, 1, 3, 1, 2, 0]


def test_moments_are_kept_or_reset(path_graphs, make_federation, train):
    def after(rounds, optimizer_state):
        algorithm = FedAvg(hidden=4, optimizer_state=optimizer_state)
        return train(algorithm, make_federation(algorithm, path_graphs), rounds)["weights"]

    assert same(after(1, "keep"), after(1, "reset"))
    assert not same(after(2, "keep"), after(2, "reset"))


def test_only_participants_train(path_graphs, make_federation):
    algorithm = FedAvg(hidden=4)
    fed = make_federation(algorithm, path_graphs * 2, fraction=0.5)
    server = algorithm.setup(fed)
    fed.begin(round=1, kind="train")
    algorithm.round(fed, server)
    fed.settle()
    rows = [row for row in fed.ledger.table().to_pylist() if row["kind"] == "train" and row["sender"] >= 0]
    assert tuple(row["sender"] for row in rows) == fed.sample()
    assert len(rows) == 2


@pytest.mark.parametrize("model", ["gcn", "sage", "mlp"])
def test_all_clients_at_once_equal_one_after_another(path_graphs, make_federation, train, model):
    algorithm = FedAvg(hidden=8, model=model, local_epochs=2)
    graphs = [*path_graphs, path_graphs[0], path_graphs[1]]
    alone, together = (
        train(algorithm, make_federation(algorithm, graphs, fraction=0.75, batched=batched), 5)["weights"]
        for batched in (False, True)
    )
    close(together, alone, tolerance=1e-5)


def test_seeds_decide_everything(path_graphs, make_federation, train):
    algorithm = FedAvg(hidden=4)

    def weights(seed):
        return train(algorithm, make_federation(algorithm, path_graphs, seed=seed), 2)["weights"]

    assert same(weights(0), weights(0))
    assert not same(weights(0), weights(1))
