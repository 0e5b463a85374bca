"""Clients that drop out or are late: fewer replies, and a clock that follows a formula."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from comparison import small

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.system import System, SystemConfig, uniform

NODES = (1000, 2000, 500)
BYTES = np.array([1_000_000, 1_000_000, 1_000_000])


def system(**options):
    return System(SystemConfig(**options), sizes=NODES, seed=0)


def test_seconds_of_a_round_follow_the_formula():
    devices = system(compute=2.0, latency=0.1, bandwidth_down=10, bandwidth_up=4)
    assert devices.in_time((0, 1, 2), BYTES, BYTES // 2) == (0, 1, 2)
    slowest = 2 * 0.1 + 2.0 * 2 + 8 / 10 + 4 / 4
    assert devices.seconds == pytest.approx(slowest)
    assert devices.in_time((2,), BYTES[:1] * 0, BYTES[:1] * 0) == (2,)
    assert devices.seconds == pytest.approx(slowest + 2 * 0.1 + 2.0 * 0.5)
    devices.begin(round=2)
    assert devices.seconds == 0


def test_who_is_late_stays_away_and_the_server_waits_until_the_deadline():
    devices = system(compute=2.0, deadline=3.0)
    assert devices.in_time((0, 1, 2), BYTES, BYTES) == (0, 2)
    assert devices.missing == {1}
    assert devices.present((0, 1)) == (0,)
    assert devices.seconds == 3.0
    devices.begin(round=2)
    assert devices.present((0, 1)) == (0, 1)


def test_the_fastest_is_waited_for_where_all_are_late():
    devices = system(compute=2.0, deadline=0.5)
    assert devices.in_time((0, 1, 2), BYTES, BYTES) == (2,)
    assert devices.seconds == pytest.approx(1.0)


def test_clients_drop_out_as_often_as_asked_and_never_all():
    devices = system(drop=0.3)
    counts = np.zeros(3)
    for number in range(2000):
        devices.begin(round=number)
        present = devices.present((0, 1, 2))
        assert present
        assert devices.present((0, 1, 2)) == present
        counts[list(present)] += 1
    # All drop out in 2.7 % of the rounds, and then one of the three is kept.
    assert counts / 2000 == pytest.approx(0.7 + 0.027 / 3, abs=0.03)


def test_slowdown_is_one_factor_per_client():
    fast, slow = system(compute=1.0), system(compute=1.0, slowdown=8.0)
    for client, nodes in enumerate(NODES):
        (one,) = fast.in_time((client,), BYTES[:1], BYTES[:1])
        (other,) = slow.in_time((client,), BYTES[:1], BYTES[:1])
        assert one == other == client
        assert nodes / 1000 <= fast.elapsed <= slow.elapsed <= 8 * nodes / 1000 + 1e-9
        fast.begin(round=1)
        slow.begin(round=1)


def test_draws_are_uniform_and_a_function_of_seed_and_number():
    numbers = np.arange(10_000)
    draws = uniform(5, numbers)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert uniform(5, numbers[7:8])[0] == draws[7]


@pytest.fixture
def run(tmp_path):
    def begin(name, *assignments, algorithm="fedavg"):
        config = load_config(None, {"rounds": 4, "algorithm": algorithm}, (*small(algorithm), *assignments))
        folders = Folders(run=tmp_path / name, cache=tmp_path / "cache", data=None)
        events = list(prepare_run(config, folders, inline=True, started=0.0).events())
        assert events[-1].status == "completed", events[-1].error
        return [event for event in events if isinstance(event, RoundReport)], tmp_path / name

    return begin


CALM = ("system.compute=0.001",)
ROUGH = ("system.drop=0.4", "system.compute=1", "system.slowdown=20", "system.deadline=0.5")


@pytest.mark.parametrize("batched", ["true", "false"])
@pytest.mark.parametrize(
    "algorithm", [name for name, kind in ALGORITHMS.items() if not kind.pooled and name != "majority"]
)
def test_every_algorithm_works_with_fewer_replies(run, algorithm, batched):
    options = ("engine.clients_per_actor=2", f"engine.batched={batched}")
    reports, folder = run("rough", *ROUGH, *options, algorithm=algorithm)
    assert min(report.num_participants for report in reports) < 4
    ledger = pq.read_table(folder / "ledger.parquet").to_pylist()
    clients = pq.read_table(folder / "clients.parquet").to_pylist()
    for report in reports:
        took_part = {row["client"] for row in clients if row["round"] == report.round and row["participated"]}
        assert len(took_part) == report.num_participants
        senders = {row["sender"] for row in ledger if row["round"] == report.round and row["kind"] == "train"}
        assert took_part <= senders  # and those that were late
        assert report.seconds_simulated > 0


def test_a_calm_system_changes_nothing_but_the_clock(run):
    (plain, first), (calm, second) = run("plain"), run("calm", *CALM)
    assert [report.evaluation.metrics for report in plain] == [report.evaluation.metrics for report in calm]
    assert pq.read_table(first / "ledger.parquet").equals(pq.read_table(second / "ledger.parquet"))
    assert {report.seconds_simulated for report in plain} == {0.0}
    assert all(report.seconds_simulated > 0 for report in calm)


def test_the_same_clients_drop_out_whatever_the_packing(run):
    counts = [
        [report.num_participants for report in run(f"packed-{size}", *ROUGH, f"engine.clients_per_actor={size}")[0]]
        for size in (1, 5)
    ]
    assert counts[0] == counts[1]
