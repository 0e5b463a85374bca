"""Grids on a synthetic graph: the recipes' data set is replaced by `--set`, everything else is theirs."""

import csv
import json
import os
import signal
import subprocess
import sys
import tomllib
from statistics import fmean, pstdev

import pytest

from fedgraph_sim.cli.paper import Choice, Paper, PaperMethod, cells_of, load_paper
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.recipes import recipe

COMMAND = [sys.executable, "-c", "from fedgraph_sim.cli.main import main; main()"]
SYNTHETIC = ("--set", "dataset.name=csbm", "--set", "dataset.num_nodes=300", "--set", "algorithm.hidden=8")
GRID = ("reproduce", "fedpub", "--dataset", "cora", "--clients", "5", "--methods", "local,fedavg", *SYNTHETIC)
SMALL = (*GRID, "--seeds", "2", "--rounds", "2", "--jobs", "1")
RECIPE = "fedpub-cora-disjoint-5"


def folders(path):
    return sorted(each for each in path.iterdir() if each.is_dir())


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_grid_is_run_and_shown_beside_what_was_published(invoke, tmp_path):
    result = invoke(*SMALL)
    assert result.exit_code == 0, result.output
    out = tmp_path / "runs" / "fedpub"
    accuracies = {}
    for path in folders(out):
        summary = json.loads((path / "summary.json").read_text())
        assert (summary["status"], summary["rounds"], summary["num_clients"]) == ("completed", 2, 5)
        accuracies.setdefault(summary["algorithm"], []).append(100 * summary["test_accuracy"])
    assert {name: len(values) for name, values in accuracies.items()} == {"local": 2, "fedavg": 2}
    for line in rows(out / "table.csv"):
        values = accuracies[line["method"]]
        assert (line["recipe"], line["runs"]) == (RECIPE, "2")
        assert float(line["mean"]) == pytest.approx(fmean(values))
        assert float(line["std"]) == pytest.approx(pstdev(values))
        assert line["secondary"] == "True"
        here = f"{fmean(values):.2f} +- {pstdev(values):.2f}"
        published = f"{line['published_mean']}".ljust(5, "0") + f" +- {line['published_std']}"
        assert f"| {RECIPE} | {line['method']} | 2 | {here} | {published} (b) |" in (out / "table.md").read_text()
        assert here in result.stdout
    cells = rows(out / "cells.csv")
    assert [(line["method"], line["seed"]) for line in cells] == [
        ("local", "0"), ("local", "1"), ("fedavg", "0"), ("fedavg", "1")
    ]  # fmt: skip
    assert all((out / line["folder"] / "config.toml").is_file() for line in cells)
    assert "population standard deviation" in result.stdout
    assert "(b) FedAux (NeurIPS 2025, arXiv 2505.23864), table 1 (a secondary source)" in result.stdout
    assert "not as in the recipes: rounds=2, dataset.name=csbm" in (out / "table.md").read_text()


def test_what_is_done_is_not_run_again_whatever_its_folder_is_called(invoke, tmp_path):
    assert invoke(*SMALL, "--seeds", "1").exit_code == 0
    out = tmp_path / "runs" / "fedpub"
    for number, path in enumerate(folders(out)):
        path.rename(out / f"renamed-{number}")
    times = {path: (path / "summary.json").stat().st_mtime_ns for path in folders(out)}
    result = invoke(*SMALL)
    assert "4 runs, 2 of them done" in result.stderr
    assert "1/2  fedpub-cora-disjoint-5-local-seed-1" in result.stderr
    assert {path: (path / "summary.json").stat().st_mtime_ns for path in times} == times
    assert len(folders(out)) == 4
    assert "4 runs, 4 of them done" in invoke(*SMALL).stderr


def test_another_configuration_is_another_run(invoke, tmp_path):
    assert invoke(*SMALL, "--seeds", "1").exit_code == 0
    result = invoke(*SMALL, "--seeds", "1", "--rounds", "1")
    assert "2 runs, 0 of them done" in result.stderr
    assert len(folders(tmp_path / "runs" / "fedpub")) == 4


def test_the_config_of_a_cell_repeats_it_to_the_bit(invoke, tmp_path):
    assert invoke(*SMALL, "--seeds", "1", "--methods", "fedpub").exit_code == 0
    (cell,) = folders(tmp_path / "runs" / "fedpub")
    assert invoke("run", cell / "config.toml", "--inline", "--name", "again").exit_code == 0
    first, again = (json.loads((path / "summary.json").read_text()) for path in (cell, tmp_path / "runs" / "again"))
    assert again["last"] == first["last"]


def test_a_dry_run_shows_what_is_done_and_writes_nothing(invoke, tmp_path):
    result = invoke(*SMALL, "--dry-run")
    assert result.exit_code == 0, result.output
    assert not list(tmp_path.iterdir())
    assert result.stdout.count("to do") == 4
    assert invoke(*SMALL, "--seeds", "1").exit_code == 0
    result = invoke(*SMALL, "--dry-run")
    assert result.stdout.count("to do") == 2
    assert "4 runs, 2 of them done" in result.stdout
    assert f"runs/fedpub/{RECIPE}-local-seed-0-" in result.stdout


def test_a_run_that_fails_is_named_and_the_others_go_on(invoke, tmp_path):
    out = tmp_path / "runs" / "fedpub"
    sheet = load_paper("fedpub")
    choice = Choice(dataset=["cora"], clients=["5"], methods=["local"], rounds=2, assignments=SYNTHETIC[1::2])
    in_the_way = out / cells_of(sheet, choice)[0].folder
    in_the_way.mkdir(parents=True)
    result = invoke(*SMALL)
    assert result.exit_code == 1
    assert f"1/4  {RECIPE}-local-seed-0  failed" in result.stderr
    assert "is not a run folder" in result.stderr
    assert f"failed: {RECIPE}-local-seed-0" in result.stdout
    assert [line["runs"] for line in rows(out / "table.csv")] == ["1", "2"]
    assert "| local | 1 of 2 |" in (out / "table.md").read_text()
    in_the_way.rmdir()
    assert "4 runs, 3 of them done" in invoke(*SMALL).stderr


@pytest.mark.parametrize("how", ["ctrl-c", "kill"])
def test_what_was_finished_before_an_interruption_counts(invoke, tmp_path, how):
    # Seeds one after another: the first ends, and the next is interrupted.
    options = (*SMALL, "--methods", "local", "--seeds", "3", "--rounds", "60")
    with subprocess.Popen([*COMMAND, *options], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        for line in running.stderr:
            if line.startswith("1/3"):
                running.send_signal(signal.SIGINT if how == "ctrl-c" else signal.SIGKILL)
                break
        running.stderr.read()
    assert running.returncode == (130 if how == "ctrl-c" else -signal.SIGKILL)
    assert (tmp_path / "runs" / "fedpub" / "table.md").is_file()
    result = invoke(*options)
    assert result.exit_code == 0, result.output
    assert "3 runs, 1 of them done" in result.stderr


def test_several_at_a_time_on_ray(cache, tmp_path):
    environment = os.environ | {"FEDGRAPH_CACHE": str(cache)}
    options = [*SMALL, "--jobs", "2", "--seeds", "1"]
    done = subprocess.run([*COMMAND, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2/2" in done.stderr
    assert [line["runs"] for line in rows(tmp_path / "runs" / "fedpub" / "table.csv")] == ["1", "1"]


def test_one_split_for_all_seeds(invoke, tmp_path):
    assert invoke(*SMALL, "--methods", "local", "--set", "data_seed=0").exit_code == 0
    configs = [tomllib.loads((path / "config.toml").read_text()) for path in folders(tmp_path / "runs" / "fedpub")]
    assert [(config["seed"], config["data_seed"]) for config in configs] == [(0, 0), (1, 0)]
    assert "all with one split and one partition" in (tmp_path / "runs" / "fedpub" / "table.md").read_text()


def grid(**choice):
    return cells_of(load_paper("fedpub"), Choice(**choice))


def test_a_method_keeps_what_it_shares_with_the_recipe():
    (cell,) = grid(dataset=["CiteSeer"], clients=["20"], methods=["fedavg"], seeds=1)
    algorithm = cell.config.algorithm
    assert (algorithm.name, algorithm.weighting, algorithm.lr, algorithm.weight_decay) == (
        "fedavg",
        "uniform",
        0.01,
        1e-6,
    )
    assert (cell.config.dataset.name, cell.config.clients, cell.config.rounds) == ("CiteSeer", 20, 100)


def test_a_method_may_be_a_variant_of_the_recipe():
    (cell,) = grid(dataset=["cora"], clients=["5"], methods=["fedpub-paper"], seeds=1)
    written = tomllib.loads(recipe("fedpub-cora-disjoint-5-paper").read_text())["algorithm"]
    assert (cell.config.algorithm.lr, cell.config.algorithm.l1) == (written["lr"], written["l1"]) == (0.001, 0.001)


def test_a_pooled_method_is_one_client_and_known_again():
    (cell,) = grid(dataset=["cora"], clients=["5"], methods=["centralized"], seeds=1)
    assert (cell.config.clients, cell.config.partition.name) == (1, "whole")


def test_a_paper_chooses_the_partition_and_the_user_another():
    assert {cell.labels["recipe"] for cell in grid(dataset=["cora"], seeds=1)} == {
        f"fedpub-cora-disjoint-{number}" for number in (5, 10, 20)
    }
    assert {
        cell.labels["recipe"] for cell in grid(dataset=["cora"], clients=["10"], partition=["metis", "overlap"])
    } == {
        "fedpub-cora-disjoint-10",
        "fedpub-cora-overlap-10",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset", "coraa"), "dataset=coraa is not known; did you mean Cora?"),
        (("--clients", "7"), "clients=7 is not known; known are 5, 10, 20, 30, 50"),
        (("--methods", "fedavgg"), "methods=fedavgg is not known; did you mean fedavg?"),
        (("--clients", "30"), "no recipe has "),
        (("--set", "algorithm.nothing=1"), "--set algorithm.nothing=1: none of the methods local, fedavg"),
        (("--seeds", "100000000"), "--seeds=100000000 makes a grid of 5,400,000,000 runs; choose at most 100,000"),
        (("--seeds", "0"), "Invalid value for '--seeds'"),
        (("--out", "file"), "is a file; choose another folder"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(invoke, tmp_path, options, message):
    (tmp_path / "file").touch()
    result = invoke("reproduce", "fedpub", *options)
    assert result.exit_code == 2
    assert message in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_paper_is_data_alone():
    """Another paper needs its file and its recipes; here a metric that is no fraction, and a method under two names."""
    fast = PaperMethod(algorithm="local")
    paper = Paper(
        title="Another", note="none", unit="", recipes=(RECIPE,), methods=("slow", "fast"),
        method={"slow": PaperMethod(algorithm="local", set=("algorithm.lr=0.1",)), "fast": fast},
    )  # fmt: skip
    cells = cells_of(paper, Choice(seeds=1))
    assert [(cell.labels["method"], cell.config.algorithm.name, cell.config.algorithm.lr) for cell in cells] == [
        ("slow", "local", 0.1), ("fast", "local", 0.01)
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="methods=slo is not known; did you mean slow"):
        cells_of(paper, Choice(methods=["slo"]))


def test_a_method_may_be_for_some_recipes_alone():
    paper = load_paper("gfl-appnp")
    found = {tuple(cell.labels.values()) for cell in cells_of(paper, Choice(seeds=1, methods=["majority", "I=10"]))}
    assert found == {*((name, "I=10") for name in paper.recipes), ("gfl-appnp-sc", "majority")}
    with pytest.raises(ConfigError, match="--methods=majority are for other recipes than those chosen"):
        cells_of(paper, Choice(methods=["majority"], dataset=["csbm-dnc"]))


def test_methods_of_gfl_appnp_differ_as_their_names_say():
    cells = {
        cell.labels["method"]: cell.config
        for cell in cells_of(load_paper("gfl-appnp"), Choice(seeds=1, dataset=["csbm-dnc"]))
    }
    assert {name: cells[name].algorithm.local_epochs for name in ("I=1", "I=10", "I=20", "I=50")} == {
        "I=1": 1, "I=10": 10, "I=20": 20, "I=50": 50
    }  # fmt: skip
    assert {cells[name].rounds * cells[name].algorithm.local_epochs for name in cells if name.startswith("I=")} == {
        3000
    }
    assert cells["h-only-I=10"] == cells["I=10"].model_copy(
        update={"algorithm": cells["I=10"].algorithm.model_copy(update={"compensation": "none"})}
    )
    assert {name: cells[name].algorithm.model for name in ("appnp", "gcn", "gat", "sage")} == {
        name: name for name in ("appnp", "gcn", "gat", "sage")
    }
    assert all(cells[name].clients == 1 for name in ("appnp", "gcn", "gat", "sage"))


def test_what_is_set_of_an_algorithm_concerns_the_methods_that_have_it():
    paper = load_paper("fedsage")
    wanted = {"dataset": ["cora"], "clients": ["3"], "methods": ["fedsage", "fedsage_plus"], "seeds": 1}
    assignments = ("algorithm.generator_rounds=3", "algorithm.hidden=8")
    plain, plus = (cell.config.algorithm for cell in cells_of(paper, Choice(**wanted, assignments=assignments)))
    assert (plain.name, plain.hidden) == ("fedsage", 8)
    assert (plus.name, plus.hidden, plus.generator_rounds) == ("fedsage_plus", 8, 3)
    with pytest.raises(ConfigError, match=r"--set algorithm\.tau=3: none of the methods fedsage, fedsage_plus has it"):
        cells_of(paper, Choice(**wanted, assignments=("algorithm.tau=3",)))
