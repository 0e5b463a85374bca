"""Ctrl-C in a terminal reaches every process of the run; it must end cleanly all the same."""

import json
import os
import signal
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import psutil
import pyarrow.parquet as pq

COMMAND = (sys.executable, "-c", "from fedgraph_sim.cli.main import main; main()", "run", "--rounds", "100000")
OPTIONS = ("--name", "stopped", "--set", "dataset.num_nodes=300", "--set", "algorithm.hidden=8", "--clients", "4")


def listening_addresses(process: psutil.Process) -> set[str]:
    """Return the addresses on which a process and all its descendants accept connections."""
    addresses = set()
    for each in (process, *process.children(recursive=True)):
        try:
            connections = each.net_connections("inet")
        except psutil.Error:
            continue
        addresses |= {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}
    return addresses


def is_local(address: str) -> bool:
    """Tell whether only this machine reaches `address`; an IPv6 socket shows 127.0.0.1 as ::ffff:127.0.0.1."""
    return ip_address(address.removeprefix("::ffff:")).is_loopback


def test_ctrl_c_keeps_the_results_and_ports_are_local(tmp_path: Path) -> None:
    environment = os.environ | {"FEDGRAPH_CACHE": str(tmp_path / "cache")}
    environment.pop("RAY_ADDRESS", None)
    with subprocess.Popen(
        (*COMMAND, *OPTIONS),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("round 3/"):
                break
        everyone = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert all(is_local(address) for address in listening_addresses(psutil.Process(process.pid)))
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    _, left = psutil.wait_procs(everyone, timeout=30)
    assert left == []
    assert "Stopping after this round" in errors
    assert "Traceback" not in errors
    assert "Results: " in output
    summary = json.loads((tmp_path / "runs" / "stopped" / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["rounds"] >= 3
    assert pq.read_table(tmp_path / "runs" / "stopped" / "rounds.parquet").num_rows == summary["rounds"]
