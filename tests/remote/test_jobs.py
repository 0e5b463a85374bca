"""Runs on a cluster that wants a token: a real head on the loopback interface, asked through the command line."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

TOKEN = secrets.token_hex(16)
SMALL = ("--set", "dataset.num_nodes=300", "--clients", "3", "--algorithm", "fedavg", "--set", "algorithm.hidden=8")
SMALL += ("--set", "engine.clients_per_actor=3")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the user on the head, and here: it holds no token."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    """What processes see, without a token."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # on a head `python` is the one with the package
    mine = {"HOME": str(home), "PATH": path, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    hidden = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "FEDGRAPH_DATA")
    return {key: value for key, value in os.environ.items() if key not in hidden} | mine


@pytest.fixture(scope="module")
def head(
    home: Path, environment: dict[str, str], end_tree: Callable[[psutil.Process], None]
) -> Iterator[tuple[str, str]]:
    """Start a head with token authentication; return the addresses of its dashboard and for Ray clients."""
    gcs, dashboard, clients = free_ports(3)
    options = f"--node-ip-address 127.0.0.1 --port {gcs} --dashboard-host 127.0.0.1 --dashboard-port {dashboard}"
    options += f" --ray-client-server-port {clients} --dashboard-agent-listen-port 0 --min-worker-port 0"
    options += " --max-worker-port 0 --num-cpus 4 --include-log-monitor false"
    # Jobs go to the cluster that was started last in a temporary folder; its sockets want a short path.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    environment["RAY_TMPDIR"] = folder
    program = "from ray.scripts.scripts import main; main()"
    command = [sys.executable, "-c", program, "start", "--head", "--block", *options.split()]
    token = environment | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with (home / "head.log").open("w") as log:
        process = psutil.Popen(command, env=token, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 120
        while "Ray runtime started" not in (home / "head.log").read_text():
            assert process.is_running(), (home / "head.log").read_text()
            assert time.monotonic() < until, (home / "head.log").read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{dashboard}", f"ray://127.0.0.1:{clients}"
    finally:
        end_tree(process)
        shutil.rmtree(folder, ignore_errors=True)


Answer = subprocess.CompletedProcess[str]


@pytest.fixture
def call(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Answer]:
    """Type a command, in an empty folder."""

    def run(*arguments: str, token: str | None = TOKEN) -> Answer:
        command = [sys.executable, "-m", "fedgraph_sim", *arguments]
        secret = {} if token is None else {"RAY_AUTH_TOKEN": token}
        local = environment | secret | {"FEDGRAPH_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(command, cwd=tmp_path, env=local, capture_output=True, text=True, check=False)
        assert TOKEN not in done.stdout + done.stderr
        return done

    return run


def holds(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def rows(folder: Path, name: str) -> object:
    table = pq.read_table(folder / f"{name}.parquet")
    return table.select([column for column in table.column_names if not column.startswith("seconds")])


def test_a_missing_and_a_wrong_token_are_named(head: tuple[str, str], call: Callable[..., Answer]) -> None:
    missing = call("status", "--address", head[0], token=None)
    assert missing.returncode == 2
    assert "wants a token, and no token was found in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH" in (
        missing.stderr
    )
    wrong = call("status", "--address", head[0], token="not-the-token")
    assert wrong.returncode == 2
    assert "refuses the token that was found here" in wrong.stderr


def test_a_run_goes_there_and_comes_back(
    head: tuple[str, str], call: Callable[..., Answer], home: Path, tmp_path: Path
) -> None:
    address = ("--address", head[0])
    done = call("submit", *SMALL, "--rounds", "3", "--name", "there", "--upload-data", "--follow", *address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "uploading the partition, " in done.stderr
    assert "round 3/3" in done.stdout
    assert (home / "fedgraph-sim-runs" / "there" / "summary.json").is_file()
    assert not (tmp_path / "runs").exists()

    assert call("fetch", "there", *address).stdout == "Results: runs/there\n"
    assert call("run", *SMALL, "--rounds", "3", "--name", "here", "--inline").returncode == 0
    there, here = tmp_path / "runs" / "there", tmp_path / "runs" / "here"
    assert {path.name for path in there.iterdir()} == {path.name for path in home.glob("fedgraph-sim-runs/there/*")}
    for name in ("rounds", "clients", "ledger"):
        assert rows(there, name).equals(rows(here, name)), name  # type: ignore[attr-defined]
    assert not holds(there, TOKEN)
    assert not holds(home / "fedgraph-sim-runs", TOKEN)

    assert "exists; choose another --name" in call("fetch", "there", *address).stderr
    again = call("submit", *SMALL, "--name", "there", *address)
    assert again.returncode == 2
    assert "the cluster has a job of this name" in again.stderr
    assert "there: succeeded, exit code 0" in call("status", "there", *address).stdout
    assert "round 3/3" in call("logs", "there", *address).stdout
    assert "there was not running: succeeded" in call("stop", "there", *address).stdout
    unknown = call("logs", "nowhere", *address)
    assert unknown.returncode == 2
    assert "has no run nowhere; it has: there" in unknown.stderr


def test_a_run_is_stopped_after_its_round(head: tuple[str, str], call: Callable[..., Answer], tmp_path: Path) -> None:
    address = ("--address", head[0])
    done = call("submit", *SMALL, "--rounds", "1000000", "--name", "long", *address)
    assert done.returncode == 0, done.stderr
    assert "fetch long" in done.stdout
    until = time.monotonic() + 120
    while "round 2/" not in call("logs", "long", *address).stdout:
        assert time.monotonic() < until
    assert "long ends after the round under way" in call("stop", "long", *address).stdout
    while "long: running" in call("status", "long", *address).stdout:
        assert time.monotonic() < until
    assert ["long", "stopped"] in [line.split()[:2] for line in call("status", *address).stdout.splitlines()]
    assert call("fetch", "long", *address).returncode == 0
    assert json.loads((tmp_path / "runs" / "long" / "summary.json").read_text())["status"] == "interrupted"


def test_a_failing_run_ends_with_its_own_exit_code(head: tuple[str, str], call: Callable[..., Answer]) -> None:
    options = ("--name", "bad", "--dataset", "Cora", "--data-dir", "/no/such/folder", "--follow")
    done = call("submit", *options, "--address", head[0])
    assert done.returncode == 2
    assert "/no/such/folder" in done.stdout + done.stderr


def test_a_client_holds_the_terminal_and_the_head_the_run(
    head: tuple[str, str], call: Callable[..., Answer], home: Path, tmp_path: Path
) -> None:
    done = call("run", *SMALL, "--rounds", "3", "--name", "client", "--address", head[1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round 3/3" in done.stderr
    here, there = tmp_path / "runs" / "client", home / "fedgraph-sim-runs" / "client"
    assert {path.name for path in here.iterdir()} == {path.name for path in there.iterdir()}
    assert json.loads((here / "summary.json").read_text())["status"] == "completed"
    assert not holds(here, TOKEN)


def test_a_run_joins_the_cluster_of_this_machine(
    head: tuple[str, str], call: Callable[..., Answer], tmp_path: Path
) -> None:
    done = call("run", *SMALL, "--rounds", "2", "--name", "joined", "--address", "auto")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "runs" / "joined" / "summary.json").read_text())["status"] == "completed"
    refused = call("run", *SMALL, "--name", "stranger", "--address", "auto", token=None)
    assert refused.returncode == 2
    assert "wants a token" in refused.stderr


def test_a_head_that_is_not_there_is_named(call: Callable[..., Answer]) -> None:
    (port,) = free_ports(1)
    done = call("status", "--address", f"http://127.0.0.1:{port}")
    assert done.returncode == 2
    assert f"the Ray cluster http://127.0.0.1:{port} does not answer" in done.stderr
    assert "is no dashboard of a Ray head" in call("status", "--address", "127.0.0.1:6379").stderr


def test_doctor_shows_this_machine(call: Callable[..., Answer]) -> None:
    done = call("doctor", "--clients", "7", "--set", "engine.clients_per_actor=4", token=None)
    assert done.returncode == 0, done.stderr
    assert "torch " in done.stdout
    assert "7 clients of equal size: 2 actors of 3 to 4 clients" in done.stdout
