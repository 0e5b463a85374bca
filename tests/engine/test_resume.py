"""A run that goes on from a checkpoint ends as one that was never interrupted."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from comparison import assert_same, small

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.checkpoint import latest_checkpoint
from fedgraph_sim.engine.cohort import InlineCohort
from fedgraph_sim.engine.coordinator import Coordinator
from fedgraph_sim.engine.host import host_of
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.errors import ConfigError, RunError

OPTIONS = ("engine.checkpoint_every=2", "evaluation.every=2")
ROUNDS = 5


@pytest.fixture
def prepare(tmp_path):
    def run(name, *assignments, algorithm="fedavg", resume=False, force=False):
        flags = {"rounds": ROUNDS, "algorithm": algorithm}
        config = load_config(None, flags, (*small(algorithm), *OPTIONS, *assignments))
        folders = Folders(run=tmp_path / name, cache=tmp_path / "cache", data=None)
        return prepare_run(config, folders, inline=True, resume=resume, force=force, started=0.0)

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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and "tfevents" not in path.name}


def test_a_start_that_fails_changes_nothing(prepare, tmp_path):
    whole = finish(prepare("whole"))
    crashed(whole, tmp_path / "crashed")
    before = contents(tmp_path / "crashed")
    run = prepare("crashed", resume=True)

    def lost():
        raise RunError("a client actor died while it loaded its clients")

    hosts = [host_of(run.job, place, use_cuda=False) for place in range(len(run.job.placement.actors))]
    *_, outcome = Coordinator(run.job, InlineCohort(run.job.placement.actors, hosts)).run(before=lost)
    assert outcome.status == "failed"
    assert contents(tmp_path / "crashed") == before
    assert_same(whole, finish(run))


def damaged_in_the_middle(path):
    content = bytearray(path.read_bytes())
    content[8:40] = b"\xff" * 32
    path.write_bytes(content)


def changed(name, change):
    """Return what replaces a table by a changed one, with its columns' descriptions."""

    def damage(folder):
        table = pq.read_table(folder / f"{name}.parquet")
        pq.write_table(change(table), folder / f"{name}.parquet")

    return damage


def as_text(table, column):
    at = table.column_names.index(column)
    return table.set_column(at, column, table[column].cast(pa.float64()).cast(pa.string()))


def half(table):
    return table.slice(0, table.num_rows // 4)


DAMAGE = {
    "rounds.parquet is missing": lambda folder: (folder / "rounds.parquet").unlink(),
    "ledger.parquet is missing": lambda folder: (folder / "ledger.parquet").unlink(),
    "clients.parquet is missing": lambda folder: (folder / "clients.parquet").unlink(),
    "clients.parquet cannot be read": lambda folder: (folder / "clients.parquet").write_bytes(b"PAR1 junk"),
    "ledger.parquet cannot be read": lambda folder: damaged_in_the_middle(folder / "ledger.parquet"),
    "matrices.parquet lacks the column round": lambda folder: pq.write_table(
        pa.table({"x": [1]}), folder / "matrices.parquet"
    ),
    "ledger.parquet lacks the column kind": lambda folder: pq.write_table(
        pa.table({"round": [1]}), folder / "ledger.parquet"
    ),
    "rounds.parquet lacks the column val_accuracy": changed("rounds", lambda table: table.drop_columns("val_accuracy")),
    r"rounds.parquet has \d rows up to round 4 instead of 4": changed("rounds", half),
    r"clients.parquet has \d+ rows up to round 4 instead of 8": changed("clients", half),
    r"ledger.parquet has \d+ rows up to round 4 instead of \d+": changed("ledger", half),
    "clients.parquet has a column client of type string instead of int64": changed(
        "clients", lambda table: as_text(table, "client")
    ),
    "clients.parquet has a column val_accuracy of type string instead of double": changed(
        "clients", lambda table: as_text(table, "val_accuracy")
    ),
    "rounds.parquet has a column seconds of type string": changed("rounds", lambda table: as_text(table, "seconds")),
    "partition.json is not that of the run's partition": lambda folder: (folder / "partition.json").write_text("{"),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_tables_that_do_not_reach_the_checkpoint_are_refused_by_name(prepare, tmp_path, message):
    crashed(finish(prepare("whole")), tmp_path / "crashed")
    DAMAGE[message](tmp_path / "crashed")
    before = contents(tmp_path / "crashed")
    with pytest.raises(ConfigError, match=message):
        prepare("crashed", resume=True)
    assert contents(tmp_path / "crashed") == before


def test_one_run_writes_to_a_folder_at_a_time(prepare):
    run = prepare("one")
    events = run.events()
    for event in events:
        if isinstance(event, RoundReport) and event.round == 3:
            break
    for options in ({"resume": True}, {"force": True}):
        with pytest.raises(ConfigError, match=r"another process is writing to .*one; stop that run first"):
            prepare("one", **options)
    *_, outcome = events
    assert outcome.status == "completed"
    finish(prepare("one", force=True))


def test_a_checkpoint_under_another_round_s_name_is_refused(prepare, tmp_path):
    crashed(finish(prepare("whole")), tmp_path / "crashed")
    latest = latest_checkpoint(tmp_path / "crashed" / "checkpoints")
    latest.rename(latest.with_name("round-000005"))
    with pytest.raises(ConfigError, match="it is of round 4"):
        prepare("crashed", resume=True)
    (latest.parent / "round-zzz").mkdir()
    assert latest_checkpoint(latest.parent).name == "round-000005"


def test_checkpoints_are_found_in_the_order_of_their_rounds(tmp_path):
    for name in ("round-999990", "round-1000000", "round-99", "round-zzz"):
        (tmp_path / name).mkdir()
    assert latest_checkpoint(tmp_path).name == "round-1000000"
