"""What all forecasting algorithms share."""

import numpy as np
import pytest
import torch
from torch import nn

from fedgraph_sim.algorithms.fedgru import FedGru
from fedgraph_sim.algorithms.fedmtl import FedMtl, neighbours
from fedgraph_sim.algorithms.gru_central import GruCentral
from fedgraph_sim.algorithms.gru_gn_central import GruGnCentral
from fedgraph_sim.algorithms.gru_local import GruLocal
from fedgraph_sim.algorithms.nn.seq2seq import sequences
from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.engine.evaluation import Evaluator
from fedgraph_sim.engine.series_tensors import SeriesTensors

FORECASTERS = [name for name, kind in ALGORITHMS.items() if kind.kind is SERIES]
SMALL = {"hidden": 4, "batch_size": 16}
GRAPH_PART = {"graph_hidden": 6, "graph_out": 3}


def small(name, **options):
    kind = ALGORITHMS[name]
    return kind(**SMALL, **{key: value for key, value in GRAPH_PART.items() if key in kind.model_fields}, **options)


def evaluate(algorithm, fed, server, protocol="local-weighted"):
    fed.begin(round=fed.round, kind="eval")
    evaluator = Evaluator(algorithm, protocol, None)
    evaluation = evaluator.finish(evaluator.begin(fed, server))
    fed.settle()
    return evaluation


def test_the_scale_is_that_of_all_training_readings(make_series, make_sensors):
    series = make_series(split={"stride": 3})
    algorithm = FedGru(**SMALL)
    fed = make_sensors(algorithm, series)
    algorithm.setup(fed)
    known = series.values[:, : series.starts["train"].max() + series.history]
    scale = fed._runner._hosts[0]._groups[0].public
    assert float(scale["mean"]) == pytest.approx(known.mean(), rel=1e-6)
    assert float(scale["std"]) == pytest.approx(known.std(), rel=1e-5)
    fed.settle()
    rows = [row for row in fed.ledger.table().to_pylist() if row["sender"] != -1]
    assert {row["bytes"] for row in rows} == {4 * 8}  # a count, two sums and a number of windows: no reading


def test_one_epoch_is_that_of_torch(make_series, make_sensors, train):
    series = make_series()
    algorithm = GruLocal(hidden=4, batch_size=100, lr=0.01, sampling_decay=1e-3)
    fed = make_sensors(algorithm, series)
    initial = algorithm.initial_weights(fed)
    train(algorithm, fed, 3)
    state = fed._runner.states()[2]
    encoder, decoder, head = nn.GRU(2, 4), nn.GRU(2, 4), nn.Linear(4, 1)
    for module, part in ((encoder, "encoder"), (decoder, "decoder")):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(module, f"{name}_l0").data = initial[f"{part}.0.{name}"].clone()
    head.weight.data, head.bias.data = initial["head.weight"][None].clone(), initial["head.bias"].clone()
    rows = sequences(
        SeriesTensors.of(series.part(np.array([2])), torch.device("cpu")),
        torch.from_numpy(series.starts["train"]),
        fed._runner._hosts[0]._groups[0].public,
    )
    parameters = [*encoder.parameters(), *decoder.parameters(), *head.parameters()]
    for _ in range(3):  # all windows are one minibatch, and Adam starts each round afresh
        optimizer = torch.optim.Adam(parameters, lr=0.01)
        _, hidden = encoder(rows.inputs)
        outputs, x = [], rows.steps[0]
        for step in range(len(rows.steps)):
            output, hidden = decoder(x[None], hidden)
            outputs.append(head(output[0])[:, 0])
            if step + 1 < len(rows.steps):
                x = torch.stack([outputs[-1], rows.steps[step + 1, :, 1]], dim=1)
        optimizer.zero_grad()
        (torch.stack(outputs) - rows.target).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(state["weights"]["decoder.0.weight_hh"], decoder.weight_hh_l0.data, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state["weights"]["encoder.0.weight_ih"], encoder.weight_ih_l0.data, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state["weights"]["head.weight"], head.weight.data[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FORECASTERS)
def test_odd_networks_finish(name, make_series, make_sensors, train):
    """A sensor that reads nothing, one that no link reaches, a graph that falls apart, one that is unseen."""
    series = make_series(num_junctions=0, missing=0.1, split={"unseen": ("road-1-sensor-1",)})
    series.values[0], series.observed[0] = 0, False
    series.adjacency[0, 0] = 0
    series.adjacency.eliminate_zeros()
    algorithm = small(name)
    fed = make_sensors(algorithm, series, fraction=0.5)
    server = train(algorithm, fed, 3)
    evaluation = evaluate(algorithm, fed, server)
    finite = {key: value for key, value in evaluation.metrics.items() if value is not None}
    assert finite.keys() >= {"val_rmse", "test_rmse", "test_rmse_masked", "test_rmse_unseen", "test_mae", "test_mape"}
    assert all(np.isfinite(value) for value in finite.values())
    assert evaluation.steps["test_rmse"].shape == (3,)


def test_figures_are_those_of_the_forecasts(make_series, make_sensors, train):
    series = make_series(missing=0.2)
    algorithm = FedGru(**SMALL)
    fed = make_sensors(algorithm, series)
    server = train(algorithm, fed, 2)
    evaluation = evaluate(algorithm, fed, server)
    scale = fed._runner._hosts[0]._groups[0].public
    rows = sequences(SeriesTensors.of(series, torch.device("cpu")), torch.from_numpy(series.starts["test"]), scale)
    forecast = algorithm.forecast(server["weights"], rows) * scale["std"] + scale["mean"]
    error = (forecast - rows.truth).numpy()
    assert evaluation.metrics["test_rmse"] == pytest.approx(np.sqrt(np.square(error).mean()), rel=1e-5)
    assert evaluation.metrics["test_mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    observed = rows.observed.numpy()
    assert evaluation.metrics["test_rmse_masked"] == pytest.approx(np.sqrt(np.square(error[observed]).mean()), rel=1e-5)
    assert evaluation.steps["test_rmse"] == pytest.approx(np.sqrt(np.square(error).mean(axis=1)), rel=1e-5)
    assert evaluation.metrics["test_rmse_unseen"] is None
    curve = evaluation.forecast["forecast"][:, 0]
    assert curve == pytest.approx(forecast[-1].reshape(4, -1).numpy(), rel=1e-4)
    per_sensor = [np.sqrt(np.square(error.reshape(3, 4, -1)[:, sensor]).mean()) for sensor in range(4)]
    assert evaluation.values["test_rmse"] == pytest.approx(per_sensor, rel=1e-5)
    assert evaluate(algorithm, fed, server, "local-mean").metrics["test_rmse"] == pytest.approx(np.mean(per_sensor))


def test_fedgru_averages_and_unseen_sensors_do_not_train(make_series, make_sensors, train):
    series = make_series(split={"seen": 0.5, "seen_by": "order"})
    algorithm = FedGru(**SMALL)
    fed = make_sensors(algorithm, series)
    server = train(algorithm, fed, 1)
    states = fed._runner.states()
    for name, leaf in server["weights"].items():
        torch.testing.assert_close(leaf, (states[0]["weights"][name] + states[1]["weights"][name]) / 2)
    trained = {row["receiver"] for row in fed.ledger.table().to_pylist() if row["step"] == "train"} - {-1}
    assert trained == {0, 1}
    count = sum(leaf.numel() for leaf in server["weights"].values())
    assert fed.ledger.total("up", "train") == fed.ledger.total("down", "train") == 2 * 4 * count


def test_fedmtl_draws_linked_sensors_together(make_series, make_sensors, train):
    series = make_series()
    spread = {}
    for strength in (0.0, 10.0):
        algorithm = FedMtl(**SMALL, strength=strength, local_epochs=2, lr=0.01)
        server = train(algorithm, make_sensors(algorithm, series), 3)
        rows = server["weights"]["decoder.0.weight_hh"].flatten(1)
        spread[strength] = float((rows[0] - rows[1]).norm())  # they are linked
    assert spread[10.0] < spread[0.0] / 2
    alone = GruLocal(**SMALL, local_epochs=2, lr=0.01)
    fed = make_sensors(alone, series)
    train(alone, fed, 3)
    algorithm = FedMtl(**SMALL, strength=0, local_epochs=2, lr=0.01)
    without = train(algorithm, make_sensors(algorithm, series), 3)
    own = torch.stack([state["weights"]["head.weight"] for state in fed._runner.states().values()])
    torch.testing.assert_close(without["weights"]["head.weight"], own)


def test_fedmtl_s_penalty_is_that_of_the_laplacian(make_series):
    links = neighbours(make_series().adjacency, 4).double()
    weights = torch.randn(4, 7, dtype=torch.double, requires_grad=True)
    laplacian = torch.diag(links.sum(dim=1)) - links
    (gradient,) = torch.autograd.grad((weights * (laplacian @ weights)).sum() / 2, weights)
    with torch.no_grad():
        torch.testing.assert_close(gradient, links.sum(dim=1)[:, None] * weights - links @ weights)


@pytest.mark.parametrize("algorithm", [GruCentral(**SMALL), GruGnCentral(**SMALL, **GRAPH_PART)])
def test_one_party_holds_all_sensors(algorithm, make_series, make_sensors, train):
    series = make_series()
    fed = make_sensors(algorithm, series)
    server = train(algorithm, fed, 4)
    evaluation = evaluate(algorithm, fed, server)
    assert evaluation.clients == (0,)
    assert evaluation.counts["test_rmse"].tolist() == [4 * len(series.starts["test"]) * 3]
    assert fed.ledger.total("up", "train") == fed.ledger.total("down", "train") == 0


@pytest.mark.parametrize("name", FORECASTERS)
def test_what_an_unseen_sensor_reads_changes_no_weights(name, make_series, make_sensors, train):
    outcomes = []
    for shift in (0.0, 30.0):
        series = make_series(split={"unseen": ("road-0-sensor-0",)})
        series.values[0] += shift
        algorithm = small(name)
        fed = make_sensors(algorithm, series)
        server = train(algorithm, fed, 2)
        outcomes.append(
            (fed._runner.states()[0 if algorithm.pooled else 1]["weights"], evaluate(algorithm, fed, server))
        )
    (first, before), (second, after) = outcomes
    assert all(torch.equal(leaf, second[key]) for key, leaf in first.items())
    assert before.metrics["val_rmse"] == after.metrics["val_rmse"]
    assert before.metrics["test_rmse_unseen"] < after.metrics["test_rmse_unseen"]


@pytest.mark.parametrize("name", ["cnfgnn", "fedgru", "gru_gn_central"])
def test_without_validation_the_test_is_judged_all_the_same(name, make_series, make_sensors, train):
    series = make_series(split={"val": 0.0})
    algorithm = small(name)
    fed = make_sensors(algorithm, series)
    evaluation = evaluate(algorithm, fed, train(algorithm, fed, 1))
    assert evaluation.metrics["val_rmse"] is None
    assert np.isfinite(evaluation.metrics["test_rmse"])
