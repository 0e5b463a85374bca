"""Many runs, in this process and in processes of their own."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.launch import Folders
from fedgraph_sim.engine.report import Outcome, RoundReport
from fedgraph_sim.engine.runners import InThisProcess, OnRunners, Plan, run_all

SMALL = ("dataset.num_nodes=300", "clients=3", "algorithm.hidden=8")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One cluster of two CPUs for all tests here."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # listen on the loopback interface only
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Plan]:
    """Plan a run in folder `name`."""

    def make(name: str, *assignments: str, rounds: int = 3) -> Plan:
        config = load_config(None, {"rounds": rounds}, (*SMALL, *assignments))
        return Plan(config=config, folders=Folders(run=tmp_path / name, cache=tmp_path / "cache", data=None))

    return make


def outcomes(runs: InThisProcess | OnRunners) -> dict[int, Outcome]:
    return {number: event for number, event in runs.events() if isinstance(event, Outcome)}


def test_runners_give_the_results_of_runs_in_this_process(plan: Callable[..., Plan], tmp_path: Path) -> None:
    assignments = ("algorithm=fedavg", "algorithm=local", "seed=1")
    here = outcomes(InThisProcess([plan(f"here-{number}", each) for number, each in enumerate(assignments)]))
    apart = outcomes(OnRunners([plan(f"apart-{number}", each) for number, each in enumerate(assignments)], 2))
    assert sorted(apart) == [0, 1, 2]
    for number, outcome in apart.items():
        assert outcome.status == "completed", outcome.error
        assert outcome.summary["last"] == here[number].summary["last"]
        written = json.loads((tmp_path / f"apart-{number}" / "summary.json").read_text())
        assert written == outcome.summary


def test_a_run_that_fails_is_an_outcome_and_the_others_go_on(plan: Callable[..., Plan]) -> None:
    plans = [plan("impossible", "clients=301"), plan("diverging", "algorithm.lr=1e6"), plan("good")]
    ended = outcomes(InThisProcess(plans))
    assert [ended[number].status for number in range(3)] == ["failed", "failed", "completed"]
    assert "clients=301 but the graph has" in ended[0].error
    assert "lower algorithm.lr" in ended[1].error


def test_a_runner_that_dies_is_replaced(plan: Callable[..., Plan]) -> None:
    runs = OnRunners([plan("a", rounds=1_000_000), plan("b", rounds=1_000_000), plan("c")], 2)
    ended, begun = {}, set()
    for number, event in runs.events():
        if isinstance(event, RoundReport) and number not in begun:
            begun.add(number)
            if begun == {0, 1}:
                for process in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if process.name() == "ray::Runner":
                            process.kill()
        if isinstance(event, Outcome):
            ended[number] = event
    assert [ended[number].status for number in range(3)] == ["failed", "failed", "completed"]
    assert "the process of the run died" in ended[0].error


@pytest.mark.parametrize("num_runners", [1, 2])
def test_stop_ends_the_runs_under_way_and_begins_no_other(plan: Callable[..., Plan], num_runners: int) -> None:
    runs = run_all([plan(name, rounds=1_000_000) for name in "abc"], num_runners)
    ended = {}
    for number, event in runs.events():
        if isinstance(event, RoundReport):
            runs.stop()
        if isinstance(event, Outcome):
            ended[number] = event.status
    assert len(ended) <= num_runners
    assert set(ended.values()) == {"interrupted"}


def test_the_machine_limits_the_runners(plan: Callable[..., Plan]) -> None:
    assert isinstance(run_all([plan("a", rounds=1000)], None), InThisProcess)
    assert isinstance(run_all([plan(name, rounds=2) for name in "abcd"], None), InThisProcess)
    several = run_all([plan(name, rounds=1000) for name in "abcd"], None)
    assert isinstance(several, OnRunners)
    assert several.num_runners == 2
