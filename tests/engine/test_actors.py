"""Runs on real Ray actors, in one local cluster of 4 CPUs and 1 logical GPU."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import Event, Outcome, RoundReport, Started

SMALL = ("algorithm.name=fedavg", "dataset.num_nodes=400", "engine.checkpoint_every=100", "algorithm.hidden=16")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One cluster for all tests here; its dashboard answers questions about actors."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # listen on the loopback interface only
    import ray

    ray.init(address="local", num_cpus=4, num_gpus=1, include_dashboard=True, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Iterator[Event]]:
    """Start a run in folder `name` and yield its events."""

    def begin(name: str, *assignments: str, inline: bool = False) -> Iterator[Event]:
        config = load_config(None, {"rounds": 3}, (*SMALL, *assignments))
        folders = Folders(run=tmp_path / name, cache=tmp_path / "cache", data=None)
        yield from prepare_run(config, folders, inline=inline, force=False, started=0.0).events()

    return begin


@pytest.fixture
def finish(start: Callable[..., Iterator[Event]], tmp_path: Path) -> Callable[..., Path]:
    """Run to the end and return the run's folder."""

    def run(name: str, *assignments: str, inline: bool = False) -> Path:
        *_, outcome = start(name, *assignments, inline=inline)
        assert isinstance(outcome, Outcome)
        assert outcome.status == "completed", outcome.error
        return tmp_path / name

    return run


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Return the final state of the server and of all clients."""
    final = folder / "checkpoints" / "round-000003"
    return load_file(final / "server.safetensors") | load_file(final / "clients.safetensors")


def assert_equal_runs(first: Path, second: Path) -> None:
    """Compare all weights bit by bit, and the ledgers row by row."""
    a, b = weights(first), weights(second)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert pq.read_table(first / "ledger.parquet").equals(pq.read_table(second / "ledger.parquet"))


def live_hosts() -> list[Any]:
    """Return what Ray's own state says of the client actors that are alive."""
    return live_actors("HostActor")


def live_actors(kind: str) -> list[Any]:
    """Return what Ray's own state says of the actors of a kind that are alive."""
    import ray
    from ray.util.state import list_actors

    actors = list_actors(address=ray.get_runtime_context().gcs_address, detail=True)
    return [actor for actor in actors if actor.state == "ALIVE" and actor.class_name == kind]


def test_loop_hosts_agree_to_the_bit_for_every_packing(finish: Callable[..., Path]) -> None:
    common = ("engine.batched=false", "fraction=0.5")
    inline = finish("inline", *common, inline=True)
    for clients_per_actor in (10, 5, 2):
        actors = finish(f"actors-{clients_per_actor}", *common, f"engine.clients_per_actor={clients_per_actor}")
        assert_equal_runs(inline, actors)


def test_batched_hosts_agree_to_the_bit_inline_and_in_actors(finish: Callable[..., Path]) -> None:
    inline = finish("inline", "engine.clients_per_actor=5", "fraction=0.7", inline=True)
    actors = finish("actors", "engine.clients_per_actor=5", "fraction=0.7")
    assert_equal_runs(inline, actors)


def test_batched_hosts_agree_closely_across_packings(finish: Callable[..., Path]) -> None:
    one, two = finish("one", "engine.clients_per_actor=10"), finish("two", "engine.clients_per_actor=5")
    a, b = weights(one), weights(two)
    assert all(torch.allclose(a[name], b[name], rtol=1e-5, atol=1e-6) for name in a)
    assert pq.read_table(one / "ledger.parquet").equals(pq.read_table(two / "ledger.parquet"))


def test_large_replies_stay_in_their_actor_and_give_the_same_mean(finish: Callable[..., Path]) -> None:
    # 10 clients x 300 features x 128 hidden are above the size from which replies are held.
    large = ("dataset.num_features=300", "algorithm.hidden=128", "engine.clients_per_actor=5")
    assert_equal_runs(finish("inline", *large, inline=True), finish("actors", *large))
    exact = (*large, "engine.batched=false")
    assert_equal_runs(finish("inline-loop", *exact, inline=True), finish("actors-loop", *exact))


@pytest.mark.parametrize("batched", ["true", "false"])
def test_personalised_weights_and_what_was_published_are_the_same_in_actors(
    finish: Callable[..., Path], batched: str
) -> None:
    options = ("algorithm.name=fedpub", "fraction=0.7", "engine.clients_per_actor=5", f"engine.batched={batched}")
    options += ("algorithm.l1=0.01", "algorithm.sparse=true", "dataset.num_features=300", "algorithm.hidden=128")
    inline, actors = finish("inline", *options, inline=True), finish("actors", *options)
    assert_equal_runs(inline, actors)
    first, second = (pq.read_table(folder / "matrices.parquet") for folder in (inline, actors))
    assert first.equals(second)
    assert set(first["name"].to_pylist()) == {"label_similarity", "missing_edges", "similarity"}


def test_same_seed_same_summary(finish: Callable[..., Path]) -> None:
    def summary(folder: Path) -> dict[str, Any]:
        measured = json.loads((folder / "summary.json").read_text())
        assert sum(measured.pop("profile").values()) > 0
        assert set(measured.pop("seconds")) == {"startup", "partition", "train", "simulated", "round_median"}
        assert len(measured.pop("peak_memory")["actors"]) == measured["num_actors"] == 2
        return measured

    options = ("engine.clients_per_actor=5",)
    assert summary(finish("first", *options)) == summary(finish("second", *options))


def test_eight_clients_share_one_gpu(start: Callable[..., Iterator[Event]]) -> None:
    events = start("shared", "clients=8", "engine.clients_per_actor=1")
    started = next(events)
    assert isinstance(started, Started)
    assert [host.device for host in started.hosts] == ["cpu"] * 8  # a logical GPU: torch sees no CUDA here
    assert [actor.required_resources["GPU"] for actor in live_hosts()] == [0.125] * 8
    assert sum(isinstance(event, RoundReport) for event in events) == 3


def test_the_server_has_a_gpu_share_of_its_own(start: Callable[..., Iterator[Event]]) -> None:
    events = start("server", "engine.server_gpus=0.5", "engine.clients_per_actor=5")
    assert isinstance(next(events), Started)
    assert [actor.required_resources["GPU"] for actor in live_hosts()] == [0.25, 0.25]
    assert [actor.required_resources["GPU"] for actor in live_actors("CoordinatorActor")] == [0.5]
    *_, outcome = events
    assert isinstance(outcome, Outcome)
    assert outcome.status == "completed", outcome.error


def test_rows_that_stay_in_their_actors_are_mixed_as_inline(finish: Callable[..., Path]) -> None:
    fedpub = ("algorithm.name=fedpub", "fraction=0.5", "dataset.num_features=300", "algorithm.hidden=128")
    packed = (*fedpub, "engine.clients_per_actor=5")
    assert_equal_runs(finish("inline", *packed, inline=True), finish("actors", *packed))
    exact = (*fedpub, "engine.batched=false", "algorithm.sparse=true")
    assert_equal_runs(finish("inline-loop", *exact, inline=True), finish("actors-loop", *exact))


def test_generators_go_from_actor_to_actor_as_inline(finish: Callable[..., Path]) -> None:
    fedsage = ("algorithm.name=fedsage_plus", "rounds=1", "algorithm.generator_rounds=2", "algorithm.widths=[16,400]")
    fedsage += ("clients=5", "dataset.num_features=200", "fraction=0.8")
    packed = (*fedsage, "engine.clients_per_actor=3")
    assert_equal_runs(finish("inline", *packed, inline=True), finish("actors", *packed))
    exact = (*fedsage, "engine.batched=false")
    two = (*exact, "engine.clients_per_actor=2")
    assert_equal_runs(finish("inline-loop", *exact, inline=True), finish("actors-loop", *two))


def test_divergence_in_an_actor_names_client_and_round(start: Callable[..., Iterator[Event]]) -> None:
    *_, outcome = start("diverged", "algorithm.lr=1e6")
    assert isinstance(outcome, Outcome)
    assert outcome.status == "failed"
    assert outcome.error.startswith("training diverged: client ")
    assert "round 1" in outcome.error


def test_actors_give_back_what_they_held(finish: Callable[..., Path]) -> None:
    import ray

    finish("first")
    for _ in range(100):  # Ray takes a moment to notice
        if ray.available_resources().get("GPU") == 1:
            break
        time.sleep(0.1)
    assert ray.available_resources()["GPU"] == 1
    assert ray.available_resources()["CPU"] == 4


def test_stop_ends_after_the_round_under_way(tmp_path: Path) -> None:
    config: RunConfig = load_config(None, {"rounds": 500}, SMALL)
    folders = Folders(run=tmp_path / "stopped", cache=tmp_path / "cache", data=None)
    run = prepare_run(config, folders, inline=False, force=False, started=0.0)
    for event in run.events():
        if isinstance(event, RoundReport) and event.round == 1:
            run.stop()
    assert isinstance(event, Outcome)
    assert event.status == "interrupted"
    assert 1 <= event.summary["rounds"] < 500
    assert pq.read_table(tmp_path / "stopped" / "rounds.parquet").num_rows == event.summary["rounds"]


def test_a_killed_coordinator_is_named_and_leaves_a_summary(
    start: Callable[..., Iterator[Event]], tmp_path: Path
) -> None:
    import ray
    from ray.util.state import list_actors

    events = start("killed", "rounds=500")
    for event in events:
        if isinstance(event, RoundReport) and event.round == 2:
            break
    actors = list_actors(address=ray.get_runtime_context().gcs_address, detail=True)
    pids = [actor.pid for actor in actors if actor.state == "ALIVE" and actor.class_name == "CoordinatorActor"]
    psutil.Process(pids[0]).send_signal(signal.SIGKILL)
    *_, outcome = events
    assert isinstance(outcome, Outcome)
    assert outcome.status == "failed"
    assert outcome.error.startswith("the coordinator died after round")
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text())
    assert summary == outcome.summary
    assert summary["rounds"] >= 2
    assert summary["bytes"]["up"] > 0


@pytest.mark.parametrize("inline", [True, False])
def test_stop_before_the_first_round_is_remembered(tmp_path: Path, inline: bool) -> None:
    config = load_config(None, {"rounds": 500}, SMALL)
    folders = Folders(run=tmp_path / "stopped", cache=tmp_path / "cache", data=None)
    run = prepare_run(config, folders, inline=inline, force=False, started=0.0)
    run.stop()
    *_, outcome = run.events()
    assert isinstance(outcome, Outcome)
    assert outcome.status == "interrupted"
    assert outcome.summary["rounds"] < 5
