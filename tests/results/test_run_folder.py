import re
import shutil

import pandas as pd
import pytest
from click.testing import CliRunner

from fedgraph_sim.cli.main import main
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results.run_folder import find_runs, load_run
from fedgraph_sim.results.scores import score_of
from fedgraph_sim.results.settings import by_setting


def test_a_finished_run(real_runs):
    run = load_run(real_runs / "fedpub-0")
    assert (run.name, run.status, run.metric) == ("fedpub-0", "completed", "accuracy")
    assert run.rounds["round"].tolist() == [1, 2, 3, 4]
    assert len(run.clients) == 16
    assert set(run.matrices["name"]) == {"similarity", "label_similarity", "missing_edges"}
    assert run.ledger.query("kind == 'train'")["bytes"].sum() == run.num_bytes
    assert run.num_bytes == run.summary["bytes"]["up"] + run.summary["bytes"]["down"]
    assert run.at_best_round("test") == run.summary["test_accuracy"]
    assert run.partition["num_clients"] == 4
    assert run.get("algorithm") == run.get("algorithm.name") == "fedpub"
    assert run.get("algorithm.hidden") == 8
    assert run.get("algorithm.nothing") is run.get("nothing.at.all") is None


def test_a_run_that_goes_on_tells_the_same_from_its_rounds(real_runs, tmp_path):
    finished = load_run(real_runs / "fedpub-0")
    shutil.copytree(finished.folder, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    run = load_run(tmp_path / "run")
    assert run.status == "unfinished"
    assert run.metric == "accuracy"
    assert run.best_round == finished.best_round
    assert run.at_best_round("test") == finished.at_best_round("test")


def test_a_run_before_its_first_round(make_run):
    folder = make_run("r", summary={}).folder
    (folder / "rounds.parquet").unlink()
    run = load_run(folder)
    assert run.rounds.empty
    assert run.clients.empty
    assert run.forecasts.empty
    assert (run.best_round, run.at_best_round("test"), run.num_bytes, run.partition) == (None, None, 0, {})


def test_where_an_error_is_measured_the_best_round_is_that_of_the_smallest(make_run, tmp_path):
    run = make_run("r", summary={})
    rounds = run.rounds.drop(columns=["val_accuracy", "test_accuracy", "test_loss"])
    rounds = rounds.assign(val_rmse=[3.0, 1.0, 2.0], test_rmse=[4.0, 5.0, 6.0])
    rounds.to_parquet(run.folder / "rounds.parquet")
    run = load_run(run.folder)
    assert (run.metric, run.best_round, run.at_best_round("test")) == ("rmse", 2, 5.0)


def test_of_equal_rounds_the_best_has_the_least_validation_loss(make_run):
    run = make_run("r", summary={})
    four = pd.concat([run.rounds, run.rounds[:1]], ignore_index=True).assign(round=[1, 2, 3, 4])
    columns = {"val_accuracy": [0.5, 0.9, 0.9, 0.9], "val_loss": [0.1, 0.4, 0.3, 0.3], "test_accuracy": [0.5] * 4}
    four.assign(**columns).to_parquet(run.folder / "rounds.parquet")
    assert load_run(run.folder).best_round == 3


def test_folders_of_runs_are_searched_and_a_run_counts_once(make_run, tmp_path):
    make_run("b")
    make_run("a")
    runs = tmp_path / "runs"
    assert [run.name for run in find_runs([runs])] == ["a", "b"]
    assert [run.name for run in find_runs([runs / "b", runs, runs / "a"])] == ["b", "a"]


def rewrite(name, text):
    return lambda folder: (folder / name).write_text(text)


def retable(name, change):
    def spoil(folder):
        path = folder / f"{name}.parquet"
        change(pd.read_parquet(path)).to_parquet(path)

    return spoil


CONFIG = """clients = 2
rounds = 3
seed = 0
algorithm.name = "fedavg"
dataset.name = "csbm"
"""
DONE = '{"status": "completed", "best_round": 2, "test_accuracy": 0.5'


@pytest.mark.parametrize("command", ["report", "compare", "table"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (rewrite("config.toml", "clients ="), "cannot read .*config.toml"),
        (rewrite("config.toml", "x = 1"), "config.toml is not as a run writes it: clients: field required"),
        (rewrite("config.toml", CONFIG.replace("seed = 0", 'seed = "a"')), "seed: must be a valid integer"),
        (rewrite("config.toml", CONFIG.replace("clients = 2", f"clients = {10**15}")), "clients: must be less"),
        (rewrite("config.toml", CONFIG.replace(".name", "")), "algorithm: must be a valid dict"),
        (rewrite("config.toml", f"{CONFIG}{'a.' * 3000}a = 1"), "config.toml .*nested more than 20 deep"),
        (rewrite("config.toml", f"{CONFIG}a = {'[' * 3000}"), "cannot read .*config.toml"),
        (rewrite("summary.json", "{"), "cannot read .*summary.json"),
        (rewrite("summary.json", "[" * 200_000), "cannot read .*summary.json"),
        (rewrite("summary.json", "[1]"), "summary.json .*no table of names and values"),
        (rewrite("summary.json", "{}"), "summary.json .*status: field required"),
        (rewrite("summary.json", DONE.replace("0.5", '"<b>"') + "}"), "summary.json .*test_accuracy is no number"),
        (rewrite("summary.json", DONE.replace("0.5", "1" * 400) + "}"), "summary.json .*test_accuracy is no number"),
        (rewrite("summary.json", DONE.replace("2", "[2]") + "}"), "summary.json .*best_round: must be a valid int"),
        (rewrite("summary.json", DONE + ', "seconds": {"startup": 1}}'), "seconds.partition: field required"),
        (rewrite("summary.json", DONE + ', "versions": 3}'), "versions: must be a valid dict"),
        (lambda folder: (folder / "rounds.parquet").write_bytes(b"PAR1"), "cannot read .*rounds.parquet"),
        (retable("rounds", lambda t: t.drop(columns="bytes_up")), "rounds.parquet .*has no column bytes_up"),
        (retable("rounds", lambda t: t[["test_accuracy"]]), "rounds.parquet .*has no column round"),
        (retable("rounds", lambda t: t.assign(seconds="1 s")), "column seconds is of type .*string instead of numbers"),
        (retable("rounds", lambda t: t.assign(test_accuracy="x")), "column test_accuracy is of type .* of numbers"),
        (retable("rounds", lambda t: t.assign(bytes_up=t.bytes_up.astype("Int64").where(t.index > 0))), "missing val"),
        (retable("rounds", lambda t: t.assign(round=1)), "two rows have the same round"),
    ],
)
def test_what_cannot_be_used_is_named(make_run, spoil, message, command):
    folders = [make_run("good").folder, make_run("spoilt", seed=1).folder]
    spoil(folders[1])
    result = CliRunner().invoke(main, [command, *map(str, folders), *(["--html", "/dev/null"] * (command == "report"))])
    assert result.exit_code == 2, result.output
    assert re.search(message, result.output)
    assert re.fullmatch(r"Error: .*spoilt/.*\n", result.output)


def test_a_folder_without_a_configuration_is_no_run(tmp_path):
    with pytest.raises(ConfigError, match=r"is not a run folder: it has no config\.toml"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (rewrite("partition.json", '{"num_clients": "x"}'), "num_clients: must be a valid integer"),
        (rewrite("partition.json", '{"num_clients": 0}'), "num_clients: must be greater than or equal to 1"),
        (rewrite("partition.json", '{"num_clients": 2, "nodes": [1]}'), "nodes does not have one entry for each of 2"),
        (rewrite("partition.json", '{"num_clients": 2, "num_classes": 3}'), "class_counts is missing"),
        (rewrite("partition.json", '{"num_clients": 1, "cut": [[1, 2]]}'), "cut is not square"),
        (retable("clients", lambda t: t.drop(columns="client")), "clients.parquet .*has no column client"),
        (retable("clients", lambda t: t.assign(client=t.client + 3)), "client has numbers beyond the 4 clients"),
        (retable("clients", lambda t: t.assign(round=1, client=1)), "two rows have the same round, client"),
        (retable("ledger", lambda t: t.drop(columns="kind")), "ledger.parquet .*has no column kind"),
        (retable("ledger", lambda t: t.assign(kind=1)), "column kind is of type int64 instead of text"),
        (retable("matrices", lambda t: t.assign(row=t.row - 1)), "row has numbers beyond the 4 clients"),
    ],
)
def test_a_report_names_what_it_cannot_use(real_runs, tmp_path, spoil, message):
    folder = shutil.copytree(real_runs / "fedpub-0", tmp_path / "run")
    spoil(folder)
    result = CliRunner().invoke(main, ["report", str(folder)])
    assert result.exit_code == 2, result.output
    assert re.search(message, result.output)
    assert re.fullmatch(r"Error: .*run/.*\n", result.output)


def test_columns_that_the_schema_does_not_know_are_no_harm(real_runs, tmp_path):
    folder = shutil.copytree(real_runs / "fedpub-0", tmp_path / "run")
    retable("ledger", lambda table: table.assign(later="x"))(folder)
    assert CliRunner().invoke(main, ["report", str(folder)]).exit_code == 0


def test_what_is_not_a_finite_number_has_no_part_in_a_mean(make_run):
    runs = [make_run(str(seed), test=test, seed=seed) for seed, test in enumerate((0.5, float("nan"), 0.7))]
    assert score_of(runs, "test", "accuracy").values == {0: 0.5, 2: 0.7}


def test_values_of_a_setting_may_be_nested(make_run):
    runs = [make_run(name, algorithm__widths=[[1], [{"a": [2]}]]) for name in ("a", "b")]
    assert len(by_setting(runs)) == 1


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="neither a run folder nor a folder of run folders"):
        find_runs([tmp_path])
