"""CNFGNN: the split model computes what the whole one does, and sends what the closed form says."""

import pytest
import torch
from whole_model import leaves_of, whole_loss

from fedgraph_sim.algorithms.cnfgnn import Cnfgnn
from fedgraph_sim.algorithms.fedgru import FedGru
from fedgraph_sim.algorithms.gru_gn_central import NETWORK, GruGnCentral
from fedgraph_sim.algorithms.gru_local import GruLocal
from fedgraph_sim.algorithms.nn.graph_network import Links
from fedgraph_sim.engine.evaluation import Evaluator

HIDDEN = 4
SMALL = {"hidden": HIDDEN, "batch_size": 16, "server_batch": 16, "graph_hidden": 6, "graph_out": 3}
CPU = torch.device("cpu")


def test_the_relayed_gradient_is_that_of_the_whole_model(make_series, make_sensors):
    series = make_series()
    algorithm = Cnfgnn(**SMALL)
    fed = make_sensors(algorithm, series)
    server = algorithm.setup(fed)
    encodings = fed.call(algorithm.encode, server["weights"]).stack("encodings")
    phase = algorithm.server_phase(fed, server)
    windows = next(phase.minibatches(encodings.shape[1], 16, 1))
    seen = {}
    original = Cnfgnn.stepped

    def spy(self, network, moments, leaves, gradients):
        seen.update(zip(leaves, gradients, strict=True))
        return original(self, network, moments, leaves, gradients)

    Cnfgnn.stepped = spy
    try:
        algorithm.server_step(fed, phase, server["network"], server["moments"], encodings, windows)
    finally:
        Cnfgnn.stepped = original
    network = leaves_of(server["network"])
    scale = fed._runner._hosts[0]._groups[0].public
    starts = torch.from_numpy(series.starts["train"])[windows]
    loss = whole_loss(algorithm, [server["weights"]] * 4, network, series, starts, scale).mean()
    expected = torch.autograd.grad(loss, list(network.values()), allow_unused=True)
    for name, gradient in zip(network, expected, strict=True):
        assert (gradient is None) == (seen[name] is None), name
        if gradient is not None:
            assert (seen[name] - gradient).norm() <= 1e-5 * gradient.norm() + 1e-9, name


def test_the_central_reference_is_the_same_model(make_series, make_sensors):
    series = make_series()
    algorithm = Cnfgnn(**SMALL)
    central = GruGnCentral(hidden=HIDDEN, graph_hidden=6, graph_out=3)
    fed, pooled = make_sensors(algorithm, series), make_sensors(central, series)
    server, weights = algorithm.setup(fed), central.setup(pooled)["weights"]
    assert all(torch.equal(weights[name], leaf) for name, leaf in server["weights"].items())
    assert all(torch.equal(weights[NETWORK + name], leaf) for name, leaf in server["network"].items())
    for federation in (fed, pooled):
        federation.begin(round=1, kind="eval")
    split = algorithm.ask_for_scores(fed, server).tree
    together = central.ask_for_scores(pooled, {}).tree
    torch.testing.assert_close(split["test_rmse"].sum(dim=0), together["test_rmse"][0], rtol=1e-5, atol=0)


@pytest.mark.parametrize("server_epochs", [1, 20])
def test_bytes_of_alternating_training(make_series, make_sensors, train, server_epochs):
    series, rounds = make_series(), 2
    algorithm = Cnfgnn(**SMALL, server_epochs=server_epochs)
    fed = make_sensors(algorithm, series)
    server = train(algorithm, fed, rounds)
    nodes, windows = series.num_nodes, len(series.starts["train"])
    model = 4 * sum(leaf.numel() for leaf in server["weights"].values())
    size = windows * HIDDEN * 4  # S: all encodings, or embeddings, of a client
    numbers = 4 * windows  # which windows a minibatch has
    assert fed.ledger.total("up", "train") == rounds * nodes * (model + size + server_epochs * size)
    assert fed.ledger.total("down", "train") == rounds * nodes * (model + server_epochs * (size + numbers) + size)
    exchanged = fed.ledger.total("up", "train") + fed.ledger.total("down", "train")
    per_epoch = (exchanged / rounds - nodes * (2 * model + server_epochs * numbers)) / server_epochs
    assert per_epoch == pytest.approx((2 * server_epochs + 2) / server_epochs * nodes * size)


def test_the_server_is_sent_no_readings(make_series, make_sensors, train):
    series = make_series()
    algorithm = Cnfgnn(**SMALL)
    fed = make_sensors(algorithm, series)
    train(algorithm, fed, 1)
    steps = {row["step"] for row in fed.ledger.table().to_pylist() if row["kind"] != "eval"}
    assert steps == {"start", "publish", "train", "encode", "judge", "receive"}
    for row in fed.ledger.table().to_pylist():
        if row["sender"] != -1 and row["step"] == "judge":
            assert row["bytes"] in (4 * HIDDEN * 16, 4 * HIDDEN * (len(series.starts["train"]) % 16))


def test_who_does_not_answer_the_server_adds_nothing(make_series, make_sensors):
    series = make_series()
    algorithm = Cnfgnn(**SMALL, server_fraction=0.5)
    fed = make_sensors(algorithm, series)
    server = algorithm.setup(fed)
    fed.begin(round=1, kind="train")
    phase = algorithm.server_phase(fed, server)
    algorithm.round(fed, server)
    fed.settle()
    asked = {row["receiver"] for row in fed.ledger.table().to_pylist() if row["step"] == "judge"} - {-1}
    assert asked == {phase.clients[at] for at in algorithm.answering(fed, phase)}
    assert len(asked) == 2
    encoded = {row["receiver"] for row in fed.ledger.table().to_pylist() if row["step"] == "encode"} - {-1}
    assert encoded == set(fed.clients)


def test_first_embeddings_are_zeros_and_later_ones_the_graph_network_s(make_series, make_sensors, train):
    series = make_series(split={"unseen": ("road-0-sensor-1",)})
    algorithm = Cnfgnn(**SMALL)
    fed = make_sensors(algorithm, series)
    algorithm.setup(fed)
    assert not any(state["embeddings"].any() for state in fed._runner.states().values())
    fed = make_sensors(algorithm, series)
    server = train(algorithm, fed, 1)
    encodings = fed.call(algorithm.encode, server["weights"], clients=[0, 2, 3]).stack("encodings")
    seen = [0, 2, 3]  # training knows the links among seen sensors only
    expected = algorithm.graph_network(server["network"], encodings, Links.of(series.adjacency[seen][:, seen]))
    states = fed._runner.states()
    for place, client in enumerate(seen):
        torch.testing.assert_close(states[client]["embeddings"], expected[place], rtol=1e-4, atol=1e-5)
    assert not states[1]["embeddings"].any()


def test_the_graph_matters_where_what_comes_is_at_the_neighbours(make_series, make_sensors):
    series = make_series(
        num_roads=4, road_length=5, num_junctions=4, length=1200, history=12, horizon=12, split={"stride": 2}
    )
    options = {"lr": 0.005}
    graph = {"hidden": 32, "graph_hidden": 64, "graph_out": 32, "server_lr": 0.005, "server_epochs": 3}
    results = {}
    for algorithm in (
        Cnfgnn(**options, **graph),
        FedGru(**options, hidden=64),
        GruLocal(**options, hidden=64),
    ):
        fed = make_sensors(algorithm, series)
        server = algorithm.setup(fed)
        for number in range(1, 6):
            fed.begin(round=number, kind="train")
            server = algorithm.round(fed, server)
        fed.begin(round=5, kind="eval")
        evaluator = Evaluator(algorithm, "local-weighted", None)
        results[algorithm.name] = evaluator.finish(evaluator.begin(fed, server)).metrics["test_rmse"]
    assert results["cnfgnn"] < 0.85 * min(results["fedgru"], results["gru_local"]), results


def test_training_knows_nothing_of_unseen_sensors(make_series, make_sensors, train):
    """Inductive: whatever an unseen sensor reads, weights, scale and validation stay; only the test sees it."""
    outcomes = []
    for shift in (0.0, 30.0):
        series = make_series(split={"unseen": ("road-0-sensor-0",)})
        series.values[0] += shift
        algorithm = Cnfgnn(**SMALL)
        fed = make_sensors(algorithm, series)
        server = train(algorithm, fed, 2)
        fed.begin(round=2, kind="eval")
        evaluator = Evaluator(algorithm, "local-weighted", None)
        outcomes.append((server, evaluator.finish(evaluator.begin(fed, server)).metrics))
    (first, metrics), (second, shifted) = outcomes
    for half in ("weights", "network"):
        assert all(torch.equal(leaf, second[half][name]) for name, leaf in first[half].items())
    assert metrics["val_rmse"] == shifted["val_rmse"]
    assert metrics["test_rmse_unseen"] < shifted["test_rmse_unseen"]
    assert metrics["test_rmse"] < shifted["test_rmse"]
