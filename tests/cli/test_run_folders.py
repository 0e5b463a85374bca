"""What lies beside a run is shown where it fits, and is no matter where it does not."""

import json

import pytest

from fedgraph_sim.cli.run_folders import finished_runs, other_algorithms
from fedgraph_sim.configuration import load_config
from fedgraph_sim.datasets.registry import DATASETS

DONE = {"status": "completed", "best_round": 2, "test_accuracy": 0.5}


@pytest.fixture
def neighbour(tmp_path):
    """Write the folder of a run of `local` with this summary and configuration; return the folder above."""

    def write(summary=DONE, config='algorithm = "local"\n'):
        folder = tmp_path / "runs" / "neighbour"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(config)
        (folder / "summary.json").write_text(summary if isinstance(summary, str) else json.dumps(summary))
        return folder.parent

    return write


def test_a_neighbour_is_shown(neighbour):
    assert [*other_algorithms(neighbour(), load_config(None, {}, ()))] == ["local"]


@pytest.mark.parametrize(
    "summary",
    [
        {"status": "completed"},
        {"status": "completed", "test_accuracy": 0.5},
        {"status": "completed", "best_round": 2},
        DONE | {"status": "failed"},
        DONE | {"status": ["completed"]},
        DONE | {"test_accuracy": "<b>"},
        DONE | {"test_accuracy": {}},
        DONE | {"test_accuracy": True},
        DONE | {"best_round": "x"},
        [DONE],
        "[" * 200_000,
        "",
    ],
)
def test_a_neighbour_with_an_odd_summary_is_not_shown(neighbour, summary):
    assert not [*finished_runs(neighbour(summary))]


@pytest.mark.parametrize(
    "config", ["x = 1", "a = [", f"{'a.' * 3000}a = 1", "rounds = 0", "[dataset]\nname = []", "\0"]
)
def test_a_neighbour_with_an_odd_configuration_is_not_shown(neighbour, config):
    assert not [*finished_runs(neighbour(config=config))]


def test_a_neighbour_whose_data_set_breaks_in_any_way_is_not_shown(neighbour, monkeypatch):
    monkeypatch.setitem(DATASETS, "csbm", None)
    assert not [*finished_runs(neighbour(config='dataset = "csbm"'))]


def test_a_neighbour_without_a_test_is_finished_but_nothing_to_compare_with(neighbour):
    runs = neighbour(DONE | {"test_accuracy": None, "best_round": None})
    assert len([*finished_runs(runs)]) == 1
    assert not other_algorithms(runs, load_config(None, {}, ()))


def test_a_run_ends_well_beside_an_odd_neighbour(run_small, tmp_path):
    run_small("--algorithm", "local")
    odd = tmp_path / "runs" / "odd"
    odd.mkdir()
    (odd / "config.toml").write_bytes((tmp_path / "runs" / "small" / "config.toml").read_bytes())
    (odd / "summary.json").write_text('{"status": "completed"}')
    run_small("--algorithm", "fedavg", "--force")
