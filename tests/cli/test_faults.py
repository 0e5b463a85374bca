"""Faults from outside: no room to write, no cluster, names that are no folders, a second Ctrl-C."""

import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

PROGRAM = "from fedgraph_sim.cli.main import main; main()"
OPTIONS = ("run", "--inline", "--clients", "3", "--set", "dataset.num_nodes=300", "--set", "algorithm.hidden=8")


def test_results_that_cannot_be_written_are_named(invoke, cache, tmp_path):
    assert invoke("partition", "--clients", "3", "--set", "dataset.num_nodes=300").exit_code == 0
    script = f'ulimit -f 8; exec {sys.executable} -c "{PROGRAM}" {" ".join(OPTIONS)} --rounds 400 --name full'
    environment = os.environ | {"FEDGRAPH_CACHE": str(cache)}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "cannot write the results to" in done.stderr


def test_a_cluster_that_is_not_there_is_named(invoke, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    result = invoke("run", "--clients", "3", "--set", "dataset.num_nodes=300", "--rounds", "1")
    assert result.exit_code == 2
    assert "the Ray cluster 127.0.0.1:1 does not answer" in result.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", [".", "..", "a/b", "../a", "/a", "x" * 300, "a\nb", "z\udcff"])
def test_a_name_that_is_no_folder_is_refused(invoke, tmp_path, name):
    result = invoke(*OPTIONS, "--rounds", "1", "--name", name)
    assert result.exit_code == 2
    assert "cannot be a folder's name" in result.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "assignment",
    ["algorithm.lr=inf", "algorithm.weight_decay=nan", ".lr=1", "seed=" + "9" * 5000, "algorithm.lr=" + "[" * 5000],
)
def test_extreme_values_are_refused(invoke, tmp_path, assignment):
    result = invoke(*OPTIONS, "--rounds", "1", "--set", assignment)
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "runs").exists()


def test_a_second_ctrl_c_keeps_what_was_recorded(cache, tmp_path):
    command = [sys.executable, "-c", PROGRAM, *OPTIONS, "--rounds", "100000", "--name", "twice"]
    environment = os.environ | {"FEDGRAPH_CACHE": str(cache)}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if line.startswith("round 20/"):
            break
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert pq.read_table(tmp_path / "runs" / "twice" / "rounds.parquet").num_rows >= 20
