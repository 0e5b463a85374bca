"""Runs on time series: what they write, and what is refused because it makes no sense for them."""

import json

import pyarrow.parquet as pq
import pytest

from fedgraph_sim.results.page import report_page
from fedgraph_sim.results.run_folder import load_run

SMALL = (
    "--inline", "--set", "dataset.num_roads=2", "--set", "dataset.road_length=2", "--set", "dataset.length=150",
    "--set", "algorithm.hidden=4", "--name", "small",
)  # fmt: skip
GRAPH = ("--set", "algorithm.graph_hidden=6", "--set", "algorithm.graph_out=3")


def run(invoke, tmp_path, *options):
    result = invoke("run", *SMALL, *options)
    assert result.exit_code == 0, result.output
    return json.loads((tmp_path / "runs" / "small" / "summary.json").read_text()), result


def test_a_forecasting_run_writes_its_figures_and_plots(invoke, tmp_path):
    summary, result = run(invoke, tmp_path, "--algorithm", "cnfgnn", "--rounds", "3", *GRAPH)
    assert summary["dataset"] == "diffusion"
    assert summary["num_clients"] == 4
    for metric in ("rmse", "mae", "mape"):
        assert summary[f"test_{metric}"] == pytest.approx(summary[f"test_{metric}_masked"])  # nothing is missing
    folder = tmp_path / "runs" / "small"
    rounds = pq.read_table(folder / "rounds.parquet")
    best = rounds["val_rmse"].to_pylist().index(min(rounds["val_rmse"].to_pylist()))
    assert summary["best_round"] == best + 1
    assert summary["test_rmse"] == rounds["test_rmse"][best].as_py()
    steps = pq.read_table(folder / "steps.parquet").to_pylist()
    assert [row["step"] for row in steps] == [*range(1, 13)] * 3
    pooled = sum(row["test_rmse"] ** 2 for row in steps[12 * best : 12 * best + 12]) / 12
    assert summary["test_rmse"] == pytest.approx(pooled**0.5)
    curves = pq.read_table(folder / "forecasts.parquet")
    assert set(curves["round"].to_pylist()) == {best + 1}
    assert set(curves["sensor"].to_pylist()) == {0, 1, 2, 3}
    plots = sorted(path.name for path in (folder / "forecasts").iterdir())
    assert plots == [f"sensor-{sensor}.png" for sensor in range(4)]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (folder / "forecasts").iterdir())
    assert "4 sensors, 3 directed links, 150 time steps" in result.stderr
    assert f"test rmse at round {best + 1}" in result.stdout
    assert "masked" not in result.stdout  # it would say the same
    page = report_page([load_run(folder)])
    assert "<figcaption>rmse</figcaption>" in page
    assert "<figcaption>rmse masked</figcaption>" not in page
    assert "--algorithm fedgru" in result.stdout
    again = invoke("run", folder / "config.toml", "--inline", "--name", "again")
    assert again.exit_code == 0, again.output
    repeated = json.loads((tmp_path / "runs" / "again" / "summary.json").read_text())
    assert repeated["test_rmse"] == summary["test_rmse"]
    assert invoke("run", *SMALL, "--algorithm", "fedgru", "--rounds", "1", "--force").exit_code == 0


def test_figures_without_missing_readings_are_shown_where_some_are_missing(invoke, tmp_path):
    options = ("--algorithm", "gru_local", "--rounds", "1", "--set", "dataset.missing=0.2")
    summary, result = run(invoke, tmp_path, *options)
    assert f"test rmse masked at round 1 {summary['test_rmse_masked']:.4f}" in " ".join(result.stdout.split())
    assert "<figcaption>rmse masked</figcaption>" in report_page([load_run(tmp_path / "runs" / "small")])


def test_tensorboard_shows_the_plots(invoke, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(invoke, tmp_path, "--algorithm", "fedgru", "--rounds", "1")
    events = EventAccumulator(str(tmp_path / "runs" / "small"), size_guidance={"images": 0})
    events.Reload()
    assert events.Tags()["images"] == [f"forecast/sensor-{sensor}" for sensor in range(4)]
    assert {"rmse/val", "rmse/test", "rmse_masked/test", "loss/train"} <= set(events.Tags()["scalars"])


@pytest.mark.parametrize("algorithm", ["gru_central", "gru_gn_central"])
def test_one_party_holds_all(invoke, tmp_path, algorithm):
    graph = GRAPH if algorithm == "gru_gn_central" else ()
    summary, _ = run(invoke, tmp_path, "--algorithm", algorithm, "--rounds", "1", *graph)
    assert (summary["num_clients"], summary["bytes"]["up"], summary["bytes"]["down"]) == (1, 0, 0)
    assert invoke("run", tmp_path / "runs" / "small" / "config.toml", "--inline", "--name", "again").exit_code == 0


def test_patience_ends_a_run_that_gets_no_better(invoke, tmp_path):
    options = ("--algorithm", "gru_local", "--rounds", "50", "--set", "algorithm.lr=0.3")
    summary, _ = run(invoke, tmp_path, *options, "--set", "evaluation.patience=2")
    assert summary["status"] == "completed"
    assert summary["best_round"] + 2 == summary["rounds"] < 50


def test_partition_shows_the_sensors(invoke):
    result = invoke("partition", "--dataset", "diffusion", "--set", "dataset.length=150")
    assert result.exit_code == 0, result.output
    assert "sensors links train val test missing" in " ".join(result.stdout.split())
    assert "windows: 12 + 12 steps" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset", "diffusion", "--algorithm", "fedavg"), "algorithm.name=fedavg is for a graph, but"),
        (("--dataset", "karate", "--algorithm", "cnfgnn"), "algorithm.name=cnfgnn is for time series, but"),
        (("--algorithm", "cnfgnn", "--partition", "metis"), "partition.name=metis divides a graph, but"),
        (("--partition", "sensor"), "partition.name=sensor divides time series, but"),
        (("--algorithm", "fedgru", "--set", "evaluation.protocol=global"), "evaluation.protocol=global is not for"),
        (("--algorithm", "fedgru", "--set", "split.stratified=true"), "unknown key split.stratified"),
        (("--algorithm", "fedgru", "--set", "algorithm.task=link"), "unknown key algorithm.task"),
        (("--algorithm", "fedgru", "--clients", "7"), "clients=7 but the data set has 20 sensors"),
        (("--algorithm", "gru_gn_split", "--set", "algorithm.average=true"), "unknown key algorithm.average"),
        (("--algorithm", "fedgru", "--set", "dataset.num_steps=20"), "a window takes 12 + 12"),
        (("--algorithm", "fedgru", "--set", "split.seen=0.5", "--dataset", "traffic"), "dataset.path"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(invoke, tmp_path, options, message):
    result = invoke("run", "--inline", *options)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()
