"""``run --resume``, ``run --store``, and grids that go on."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from fedgraph_sim.engine.checkpoint import latest_checkpoint

SMALL = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "4")
KEPT = ("--algorithm", "fedavg", "--set", "engine.checkpoint_every=2", "--set", "algorithm.hidden=8")


def interrupt(folder):
    """Leave a finished run as one that was killed before its last checkpoint."""
    shutil.rmtree(latest_checkpoint(folder / "checkpoints"))
    (folder / "summary.json").unlink()


def test_a_killed_run_goes_on(invoke, tmp_path):
    assert invoke("run", *SMALL, *KEPT, "--name", "a").exit_code == 0
    folder = tmp_path / "runs" / "a"
    before = json.loads((folder / "summary.json").read_text())
    interrupt(folder)
    result = invoke("run", "--inline", "--resume", "runs/a")
    assert result.exit_code == 0, result.output
    assert [line.split()[1] for line in result.stderr.splitlines() if line.startswith("round ")] == ["3/4", "4/4"]
    after = json.loads((folder / "summary.json").read_text())
    assert {key: after[key] for key in ("last", "bytes", "best_round")} == {
        key: before[key] for key in ("last", "bytes", "best_round")
    }
    assert pq.read_table(folder / "rounds.parquet")["round"].to_pylist() == [1, 2, 3, 4]


def test_what_cannot_be_gone_on_with_is_refused(invoke, tmp_path):
    assert invoke("run", *SMALL, *KEPT, "--name", "a").exit_code == 0
    (tmp_path / "empty").mkdir()
    for options, message in (
        (("--resume", "runs/a"), "the run is complete"),
        (("--resume", "runs/a", "--rounds", "9"), "leave out rounds"),
        (("--resume", "runs/a", "--set", "seed=1", "--force"), "leave out force, assignments"),
        (("--resume", "empty"), "not a run folder"),
    ):
        result = invoke("run", "--inline", *options)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
    interrupt(tmp_path / "runs" / "a")
    checkpoint = latest_checkpoint(tmp_path / "runs" / "a" / "checkpoints")
    (checkpoint / "server.safetensors").write_bytes(b"junk")
    result = invoke("run", "--inline", "--resume", "runs/a")
    assert result.exit_code == 2
    assert "round-000002 is damaged (server.safetensors was changed)" in result.stderr
    assert not (tmp_path / "runs" / "a" / "summary.json").exists()


def test_a_partition_that_was_made_elsewhere(invoke, tmp_path):
    made = invoke("partition", "--set", "dataset.num_nodes=300", "--clients", "3")
    store = made.stdout.split()[-1]
    shutil.move(store, tmp_path / "elsewhere")
    assert invoke("run", *SMALL, "--name", "a", "--store", "elsewhere").exit_code == 0
    for options, message in (
        (("--clients", "4"), "holds csbm by metis into 3 clients, but the run asks for csbm by metis into 4"),
        (("--partition", "louvain"), "but the run asks for csbm by louvain into 3"),
    ):
        result = invoke("run", *SMALL, "--store", "elsewhere", *options)
        assert result.exit_code == 2
        assert message in result.stderr
    result = invoke("run", *SMALL, "--store", str(tmp_path))
    assert result.exit_code == 2
    assert "holds no whole partition" in result.stderr


@pytest.mark.parametrize("killed", [True, False])
def test_a_grid_goes_on_from_the_checkpoints_of_its_runs(invoke, data_dir, tmp_path, killed):
    options = ("--dataset", "Cora", "--clients", "5", "--methods", "local", "--seeds", "1", "--rounds", "3")
    options += ("--set", "engine.checkpoint_every=1", "--data-dir", data_dir, "--out", "grid")
    assert invoke("reproduce", "fedpub", *options).exit_code == 0
    (folder,) = [path for path in (tmp_path / "grid").iterdir() if path.is_dir()]
    table = (tmp_path / "grid" / "table.csv").read_text()
    interrupt(folder)
    if not killed:
        shutil.rmtree(folder / "checkpoints")
    (folder / "mark").touch()
    (folder / "mark").rename(folder / "mark.tmp")  # a file that a run may leave
    result = invoke("reproduce", "fedpub", *options)
    assert result.exit_code == 0, result.output
    assert (folder / "mark.tmp").exists() == killed
    assert (tmp_path / "grid" / "table.csv").read_text() == table
