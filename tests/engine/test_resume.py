"""A run that goes on from a checkpoint ends as one that was never interrupted."""

import shutil

import pytest
from comparison import assert_same, small

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.checkpoint import latest_checkpoint
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.errors import ConfigError

OPTIONS = ("engine.checkpoint_every=2", "evaluation.every=2")
ROUNDS = 5


@pytest.fixture
def prepare(tmp_path):
    def run(name, *assignments, algorithm="fedavg", resume=False):
        flags = {"rounds": ROUNDS, "algorithm": algorithm}
        config = load_config(None, flags, (*small(algorithm), *OPTIONS, *assignments))
        folders = Folders(run=tmp_path / name, cache=tmp_path / "cache", data=None)
        return prepare_run(config, folders, inline=True, resume=resume, started=0.0)

    return run


def finish(run):
    *_, outcome = run.events()
    assert outcome.status == "completed", outcome.error
    return run.job.folder


def crashed(folder, copy):
    """Copy a finished run as one that was killed between its last round and the writing of the last checkpoint."""
    shutil.copytree(folder, copy)
    shutil.rmtree(latest_checkpoint(copy / "checkpoints"))
    (copy / "summary.json").unlink()


@pytest.mark.parametrize("batched", ["true", "false"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_tables_that_are_ahead_of_the_checkpoint_are_cut_back(prepare, tmp_path, algorithm, batched):
    options = (f"engine.batched={batched}", "fraction=0.7")
    whole = finish(prepare("whole", *options, algorithm=algorithm))
    crashed(whole, tmp_path / "crashed")
    again = finish(prepare("crashed", *options, algorithm=algorithm, resume=True))
    assert_same(whole, again)


def test_a_stopped_run_goes_on_where_it_was(prepare, tmp_path):
    whole = finish(prepare("whole"))
    run = prepare("stopped")
    for event in run.events():
        if isinstance(event, RoundReport) and event.round == 1:
            run.stop()
    assert event.status == "interrupted"
    assert event.summary["rounds"] < ROUNDS
    resumed = prepare("stopped", resume=True)
    first = next(event for event in resumed.events() if isinstance(event, RoundReport))
    assert first.round == event.summary["rounds"] + 1
    finish(prepare("stopped", resume=True))
    assert_same(whole, tmp_path / "stopped")


def test_a_summary_of_a_resumed_run_covers_all_rounds(prepare, tmp_path):
    *_, whole = prepare("whole", algorithm="fedpub").events()
    crashed(tmp_path / "whole", tmp_path / "crashed")
    *_, again = prepare("crashed", algorithm="fedpub", resume=True).events()
    for key in ("rounds", "best_round", "val_accuracy", "test_accuracy", "last", "bytes"):
        assert whole.summary[key] == again.summary[key], key


def test_a_run_without_checkpoints_cannot_go_on(prepare):
    finish(prepare("none", "engine.checkpoint_every=0"))
    with pytest.raises(ConfigError, match=r"none has no checkpoint to go on from"):
        prepare("none", "engine.checkpoint_every=0", resume=True)


@pytest.mark.parametrize("other", ["algorithm.lr=0.5", "seed=1", "dataset.num_nodes=301", "fraction=0.5"])
def test_a_run_of_another_configuration_cannot_go_on(prepare, tmp_path, other):
    crashed(finish(prepare("whole")), tmp_path / "crashed")
    with pytest.raises(ConfigError, match=r"round-000004 belongs to another run"):
        prepare("crashed", other, resume=True)


def test_placement_may_change(prepare, tmp_path):
    exact = ("engine.batched=false", "engine.clients_per_actor=4")
    whole = finish(prepare("whole", *exact))
    crashed(whole, tmp_path / "crashed")
    assert_same(whole, finish(prepare("crashed", "engine.batched=false", "engine.clients_per_actor=1", resume=True)))
