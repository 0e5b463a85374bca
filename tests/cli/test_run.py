import json
import math
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections import Counter

import pyarrow.parquet as pq
import pytest

from fedgraph_sim.algorithms.registry import ALGORITHMS, BASELINES
from fedgraph_sim.configuration import load_config
from fedgraph_sim.datasets.graph_dataset import GRAPH
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.recipes import recipe

KEYS = {
    "status",
    "algorithm",
    "dataset",
    "partition",
    "num_clients",
    "num_actors",
    "clients_per_actor",
    "rounds",
    "rounds_planned",
    "seed",
    "fraction",
    "protocol",
    "best_round",
    "val_accuracy",
    "test_accuracy",
    "last",
    "seconds",
    "padding",
    "profile",
    "bytes",
    "peak_memory",
    "versions",
    "remarks",
}
FILES = {"config.toml", "summary.json", "partition.json", "rounds.parquet", "clients.parquet", "ledger.parquet"}
COMMAND = [sys.executable, "-c", "from fedgraph_sim.cli.main import main; main()", "run"]


def results(summary):
    """What a repetition of the run must reproduce."""
    return {key: value for key, value in summary.items() if key not in ("seconds", "padding", "profile", "peak_memory")}


def test_a_run_writes_its_folder(run_small, tmp_path):
    summary = run_small("--algorithm", "fedavg")
    assert set(summary) == KEYS
    assert summary["status"] == "completed"
    assert (summary["algorithm"], summary["dataset"], summary["partition"]) == ("fedavg", "csbm", "metis")
    assert (summary["num_clients"], summary["rounds"], summary["seed"]) == (3, 3, 0)
    assert 1 <= summary["best_round"] <= 3
    assert 0 <= summary["test_accuracy"] <= 1
    assert summary["last"]["round"] == 3
    assert set(summary["seconds"]) == {"startup", "partition", "train", "simulated", "round_median"}
    parameters = 64 * 128 + 128 + 128 * 128 + 128 + 128 * 6 + 6
    sent = 3 * 3 * parameters * 4
    assert summary["bytes"]["up"] == summary["bytes"]["down"] == sent
    assert summary["bytes"]["setup"] == 3 * (parameters * 4 + 8)
    folder = tmp_path / "runs" / "small"
    names = {path.name for path in folder.iterdir()}
    assert names >= FILES
    assert [name for name in names - FILES if not name.startswith("events.out.tfevents.")] == []
    rounds = pq.read_table(folder / "rounds.parquet").to_pylist()
    assert [row["round"] for row in rounds] == [1, 2, 3]
    assert sum(row["bytes_up"] for row in rounds) == sent
    assert max(row["val_accuracy"] for row in rounds) == summary["val_accuracy"]
    clients = pq.read_table(folder / "clients.parquet").to_pylist()
    assert [(row["round"], row["client"]) for row in clients] == [(r, c) for r in (1, 2, 3) for c in (0, 1, 2)]
    ledger = pq.read_table(folder / "ledger.parquet").to_pylist()
    assert sum(row["bytes"] for row in ledger if row["kind"] == "train") == 2 * sent


def test_a_personalised_run_shows_who_resembles_whom(invoke, tmp_path):
    options = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "4", "--name", "pub")
    result = invoke("run", *options, "--algorithm", "fedpub", "--set", "evaluation.every=3")
    assert result.exit_code == 0, result.output
    assert "matrices.parquet" in result.stdout
    folder = tmp_path / "runs" / "pub"
    matrices = pq.read_table(folder / "matrices.parquet").to_pylist()
    counts = Counter((row["round"], row["name"]) for row in matrices)
    names = [(0, "label_similarity"), (0, "missing_edges"), (3, "similarity"), (4, "similarity")]
    assert counts == dict.fromkeys(names, 9)
    clients = pq.read_table(folder / "clients.parquet").to_pylist()
    assert [row["conv1_sparsity_count"] for row in clients] == [64 * 128] * 6
    lines = [line for line in result.stderr.splitlines() if line.startswith("round ")]
    assert all("sparsity" not in line for line in lines)


def test_the_output_is_one_line_per_round_and_the_results(invoke):
    result = invoke("run", "--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "3")
    lines = result.stderr.splitlines()
    assert re.fullmatch(r"fedpub on csbm: \d+ nodes, .* 3 clients by metis, .* 3 rounds", lines[0])
    pattern = r"round (\d)/3  val accuracy 0\.\d{4}  test accuracy 0\.\d{4}  [\d.]+ [kM]B in all  [\d.]+ s"
    assert [re.fullmatch(pattern, line)[1] for line in lines if line.startswith("round ")] == ["1", "2", "3"]
    assert re.search(r"test accuracy at round \d +0\.\d{4}", result.stdout)
    folder = re.search(r"Results: (\S+)", result.stdout)[1]
    assert re.fullmatch(r"runs/\d{8}-\d{6}-fedpub-csbm", folder)
    assert os.path.isfile(f"{folder}/summary.json")


def test_one_seed_gives_one_result_and_another_seed_another(run_small):
    first = run_small()
    assert results(run_small("--force")) == results(first)
    assert run_small("--force", "--seed", "1")["last"] != first["last"]


def test_the_config_of_a_run_repeats_it(run_small, invoke, tmp_path):
    first = run_small("--algorithm", "fedprox", "--set", "algorithm.mu=0.5", "--set", "fraction=0.7")
    config = tmp_path / "runs" / "small" / "config.toml"
    result = invoke("run", config, "--inline", "--name", "again")
    assert result.exit_code == 0, result.output
    again = tmp_path / "runs" / "again"
    assert results(json.loads((again / "summary.json").read_text())) == results(first)
    assert tomllib.loads((again / "config.toml").read_text()) == tomllib.loads(config.read_text())


def test_a_config_of_an_own_graph_works_from_another_folder(invoke, own_graph, tmp_path, monkeypatch):
    options = own_graph(["train", "test", "train", "test"])
    assert invoke("run", "--inline", "--rounds", "1", "--name", "a", *options).exit_code == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert invoke("run", "../runs/a/config.toml", "--inline").exit_code == 0


@pytest.mark.parametrize("algorithm", ["local", "fedpub", "gcfl", "fedsage_plus", "gfl_appnp"])
@pytest.mark.parametrize("split", ["own", "ratio"])
def test_nodes_without_labels_are_in_the_graph_and_no_examples(invoke, own_graph, tmp_path, algorithm, split):
    options = own_graph(["train", "train", "train", "val"], labels=("x", None, "y", "x"))
    changes = (
        "--set",
        f"split.kind={split}",
        "--set",
        "split.train=1",
        "--set",
        "split.val=0",
        "--set",
        "split.test=0",
    )
    result = invoke("run", "--inline", "--rounds", "1", "--name", "a", *options, *changes, "--algorithm", algorithm)
    assert result.exit_code == 0, result.output
    partition = json.loads((tmp_path / "runs" / "a" / "partition.json").read_text())
    assert (partition["num_nodes"], sum(partition["train"])) == (4, 2 if split == "own" else 3)
    assert math.isfinite(pq.read_table(tmp_path / "runs" / "a" / "rounds.parquet")["train_loss"].to_pylist()[-1])


def test_flags_win_over_the_file_and_set_wins_over_flags(invoke, tmp_path):
    (tmp_path / "c.toml").write_text('rounds = 9\nclients = 9\n[algorithm]\nname = "fedprox"\nlr = 0.5\nmu = 2.0\n')
    options = ("--clients", "2", "--rounds", "8", "--set", "rounds=1", "--set", "algorithm.mu=.25")
    result = invoke("run", "c.toml", "--inline", "--name", "a", "--set", "dataset.num_nodes=300", *options)
    assert result.exit_code == 0, result.output
    config = tomllib.loads((tmp_path / "runs" / "a" / "config.toml").read_text())
    assert (config["rounds"], config["clients"]) == (1, 2)
    assert (config["algorithm"]["lr"], config["algorithm"]["mu"]) == (0.5, 0.25)


@pytest.mark.parametrize("protocol", ["local-mean", "local-weighted"])
def test_without_test_nodes_the_accuracy_is_not_available(invoke, own_graph, tmp_path, protocol):
    options = own_graph(["train", "val", "train", None])
    assignment = f"evaluation.protocol={protocol}"
    result = invoke("run", "--inline", "--rounds", "2", "--name", "a", *options, "--set", assignment)
    assert result.exit_code == 0, result.output
    assert re.search(r"test accuracy at round \d +not available", result.stdout)
    assert json.loads((tmp_path / "runs" / "a" / "summary.json").read_text())["test_accuracy"] is None


@pytest.mark.parametrize("algorithm", ["local", "centralized", "fedavg", "fedprox"])
def test_every_algorithm_runs(run_small, algorithm):
    summary = run_small("--algorithm", algorithm)
    assert summary["num_clients"] == (1 if algorithm == "centralized" else 3)
    assert (summary["bytes"]["up"] > 0) == algorithm.startswith("fed")


LINKS = ("--set", "algorithm.task=link", "--set", "dataset.num_nodes=600", "--partition", "random", "--rounds", "30")


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("local", ()), ("fedavg", ()), ("fedavg", ("--set", "evaluation.protocol=global")), ("centralized", ())],
)
def test_links_are_predicted_better_than_by_chance(run_small, algorithm, options):
    summary = run_small("--algorithm", algorithm, *LINKS, *options)
    assert set(summary) == {key.replace("accuracy", "auc") for key in KEYS}
    assert summary["test_auc"] > 0.7
    assert summary["last"]["test_auc"] <= summary["last"]["train_auc"] <= 1


def test_the_score_of_links_has_its_name_everywhere(invoke, tmp_path):
    result = invoke("run", "--inline", "--name", "a", "--clients", "3", *LINKS, "--rounds", "1")
    assert re.search(r"round 1/1  val auc 0\.\d{4}  test auc 0\.\d{4}  ", result.stderr)
    assert re.search(r"test auc at round 1 +0\.\d{4}", result.stdout)
    assert "accuracy" not in result.output
    scores = {f"{role}_{score}" for role in ("train", "val", "test") for score in ("loss", "auc")}
    rounds, clients = (pq.read_table(tmp_path / "runs" / "a" / f"{name}.parquet") for name in ("rounds", "clients"))
    assert scores <= set(rounds.column_names)
    assert scores | {f"{score}_count" for score in scores} <= set(clients.column_names)


def test_other_fractions_of_links_need_no_other_partition(run_small, cache):
    run_small(*LINKS, "--rounds", "1")
    stores = set((cache / "partitions").iterdir())
    run_small(*LINKS, "--rounds", "1", "--set", "split.link_test=0.3", "--force")
    assert set((cache / "partitions").iterdir()) == stores


def test_the_global_protocol_judges_the_servers_model(run_small):
    summary = run_small("--algorithm", "fedavg", "--set", "evaluation.protocol=global")
    assert summary["protocol"] == "global"
    assert summary["bytes"]["eval"] == 0
    assert 0 <= summary["test_accuracy"] <= 1


def test_evaluation_and_checkpoints_only_now_and_then(run_small, tmp_path):
    summary = run_small("--set", "evaluation.every=2", "--set", "engine.checkpoint_every=2", "--set", "fraction=0.4")
    folder = tmp_path / "runs" / "small"
    accuracies = pq.read_table(folder / "rounds.parquet")["val_accuracy"].to_pylist()
    assert [accuracy is None for accuracy in accuracies] == [True, False, False]
    assert summary["last"]["round"] == 3
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["round-000002", "round-000003"]


def test_a_run_is_shown_beside_others_that_differ_in_the_algorithm_alone(invoke, tmp_path):
    small = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "2")
    first = invoke("run", *small, "--name", "pub").stdout
    assert "Compare: fedgraph-sim run runs/pub/config.toml --algorithm fedavg" in first
    options = ("--inline", "--algorithm", "fedavg", "--set", "engine.clients_per_actor=3")
    second = invoke("run", "runs/pub/config.toml", *options, "--name", "avg").stdout
    accuracy = json.loads((tmp_path / "runs" / "pub" / "summary.json").read_text())["test_accuracy"]
    assert re.search(
        rf"Other algorithms on the same data, split and rounds:\n  fedpub +test accuracy {accuracy:.4f}  runs/pub\n",
        second,
    )
    assert (
        "Compare: fedgraph-sim run runs/longer/config.toml"
        in invoke("run", *small, "--rounds", "3", "--name", "longer").stdout
    )  # another number of rounds is not equal
    again = invoke("run", *small, "--set", "algorithm.lr=0.02", "--name", "pub-2").stdout
    assert "runs/avg" in again
    assert "runs/pub\n" not in again


def test_of_several_runs_the_one_most_alike_is_shown_and_what_differs_is_said(invoke):
    small = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "1", "--algorithm")
    invoke("run", *small, "fedavg", "--set", "algorithm.hidden=16", "--name", "alike")
    invoke("run", *small, "fedavg", "--set", "algorithm.hidden=8", "--set", "algorithm.lr=0.02", "--name", "other")
    output = invoke("run", *small, "fedprox", "--set", "algorithm.hidden=16", "--name", "a").stdout
    assert re.search(r"split and rounds:\n  fedavg +test accuracy 0\.\d+  runs/alike\n", output)
    output = invoke("run", *small, "fedprox", "--set", "algorithm.hidden=4", "--name", "b").stdout
    assert "runs/alike  (hidden=16)\n" in output


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path, cache):
    small = "--inline --clients 3 --rounds 5 --name piped --set dataset.num_nodes=300 --set algorithm.hidden=4"
    command = f"{sys.executable} -m fedgraph_sim run {small} 2>&1 | head -n 2"
    environment = os.environ | {"FEDGRAPH_CACHE": str(cache)}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.count("\n") == 2
    assert "Traceback" not in done.stderr + done.stdout
    assert json.loads((tmp_path / "runs" / "piped" / "summary.json").read_text())["status"] == "completed"


@pytest.mark.parametrize("name", sorted(name for name, algorithm in ALGORITHMS.items() if not algorithm.pooled))
def test_what_to_compare_an_algorithm_with_runs_on_its_configuration(name):
    file = {SERIES: "cnfgnn-synthetic", GRAPH: "gfl-appnp-dnc"}[ALGORITHMS[name].kind]
    config = load_config(recipe(file), {"algorithm": name}, ())
    other = load_config(recipe(file), {"algorithm": BASELINES.get(name, "fedavg")}, ())
    assert other.algorithm.name != name
    assert config.model_dump(exclude={"algorithm"}) == other.model_dump(exclude={"algorithm"})


def test_the_parts_of_a_round_are_no_more_than_the_round(run_small, tmp_path):
    run_small("--set", "algorithm.local_epochs=20")
    for row in pq.read_table(tmp_path / "runs" / "small" / "rounds.parquet").to_pylist():
        parts = sum(row[f"seconds_{part}"] for part in ("compute", "server", "evaluation", "transport"))
        assert parts == pytest.approx(row["seconds"], rel=0.01)
        assert row["seconds_server"] < row["seconds_compute"]


def test_a_pooled_run_is_no_file_for_others(invoke):
    small = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "2")
    assert "Compare:" not in invoke("run", *small, "--algorithm", "centralized").stdout


def test_divergence_ends_the_run_and_keeps_the_results(invoke, tmp_path):
    options = ("--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "5", "--set", "algorithm.lr=1e6")
    result = invoke("run", "--inline", "--name", "a", "--algorithm", "fedavg", *options)
    assert result.exit_code == 1
    assert re.search(r"Error: .*client \d.*round \d.*lower algorithm\.lr", result.stderr)
    folder = tmp_path / "runs" / "a"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert "lower algorithm.lr" in summary["error"]
    assert pq.read_table(folder / "rounds.parquet").num_rows == summary["rounds"] >= 1


TALKATIVE = """
from fedgraph_sim.algorithms.fedpub import FedPub

class Talkative(FedPub):
    name: str = "talkative:Talkative"

    def round(self, fed, server):
        print("round", fed.round, "speaking")
        return super().round(fed, server)
"""


def test_actors_give_the_results_of_an_inline_run(run_small, tmp_path):
    inline = run_small()
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    options = ["--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "3", "--name", "actors"]
    options += ["--algorithm", "talkative:Talkative"]
    done = subprocess.run([*COMMAND, *options], cwd=tmp_path, timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "round 1 speaking" in done.stderr  # what is printed elsewhere comes here, but not between the results
    assert "speaking" not in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    summary = json.loads((tmp_path / "runs" / "actors" / "summary.json").read_text())
    assert summary["num_actors"] >= 1
    assert summary["bytes"] == inline["bytes"]
    assert summary["last"] == pytest.approx(inline["last"], abs=1e-5)


def test_ctrl_c_ends_after_the_round_and_keeps_the_results(invoke, tmp_path):
    options = ["--inline", "--rounds", "100000", "--name", "a", "--set", "dataset.num_nodes=300", "--clients", "3"]
    running = subprocess.Popen([*COMMAND, *options], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if line.startswith("round 2/"):
            running.send_signal(signal.SIGINT)
            break
    _, rest = running.communicate(timeout=60)
    assert running.returncode == 130
    assert re.search(r"Stopped after round \d+; the results so far are kept", rest)
    assert json.loads((tmp_path / "runs" / "a" / "summary.json").read_text())["status"] == "interrupted"
