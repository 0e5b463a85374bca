import shutil

import pytest

from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results.run_folder import find_runs, load_run


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


def test_a_run_before_its_first_round(tmp_path):
    (tmp_path / "config.toml").write_text("clients = 2\n")
    run = load_run(tmp_path)
    assert run.rounds.empty
    assert run.clients.empty
    assert run.forecasts.empty
    assert (run.best_round, run.at_best_round("test"), run.num_bytes, run.partition) == (None, None, 0, {})


def test_where_an_error_is_measured_the_best_round_is_that_of_the_smallest(make_run, tmp_path):
    import pandas as pd

    run = make_run("r", summary={})
    rounds = pd.DataFrame({"round": [1, 2, 3], "val_rmse": [3.0, 1.0, 2.0], "test_rmse": [4.0, 5.0, 6.0]})
    rounds.to_parquet(run.folder / "rounds.parquet")
    run = load_run(run.folder)
    assert (run.metric, run.best_round, run.at_best_round("test")) == ("rmse", 2, 5.0)


def test_of_equal_rounds_the_best_has_the_least_validation_loss(make_run):
    import pandas as pd

    run = make_run("r", summary={})
    columns = {"val_accuracy": [0.5, 0.9, 0.9, 0.9], "val_loss": [0.1, 0.4, 0.3, 0.3], "test_accuracy": [0.5] * 4}
    pd.DataFrame({"round": [1, 2, 3, 4], **columns}).to_parquet(run.folder / "rounds.parquet")
    assert load_run(run.folder).best_round == 3


def test_folders_of_runs_are_searched_and_a_run_counts_once(make_run, tmp_path):
    make_run("b")
    make_run("a")
    runs = tmp_path / "runs"
    assert [run.name for run in find_runs([runs])] == ["a", "b"]
    assert [run.name for run in find_runs([runs / "b", runs, runs / "a"])] == ["b", "a"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.toml").unlink(), "is not a run folder: it has no config.toml"),
        (lambda folder: (folder / "config.toml").write_text("clients ="), "cannot read .*config.toml"),
        (lambda folder: (folder / "summary.json").write_text("{"), "cannot read .*summary.json"),
        (lambda folder: (folder / "rounds.parquet").write_bytes(b"PAR1"), "cannot read .*rounds.parquet"),
    ],
)
def test_what_cannot_be_read_is_named(make_run, spoil, message):
    folder = make_run("r").folder
    spoil(folder)
    with pytest.raises(ConfigError, match=message):
        _ = load_run(folder).rounds


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="neither a run folder nor a folder of run folders"):
        find_runs([tmp_path])
