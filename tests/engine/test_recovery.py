"""Processes are killed (SIGKILL) in the middle of runs on a cluster of several nodes: the results stay the same."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from comparison import assert_same
from killing import AllHanging, DeadlyCoordinator, DeadlyFedAvg, DeadlyFedGnn, DeadlyFedPub, Dying, Hanging, Patient

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.coordinator import MAX_LOSSES
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import Outcome, RolledBack, RoundReport, Started

OPTIONS = ("dataset.num_nodes=300", "engine.checkpoint_every=2", "engine.clients_per_actor=2")
LOOP = "engine.batched=false"
CLIENTS, ROUNDS = 4, 5


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """A head, where this process is, and another node; each has 2 CPUs and a logical GPU."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # listen on the loopback interface only
    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{Path(__file__).parent}:{path}"  # actors import `killing`
    import ray
    from ray.cluster_utils import Cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = {"num_cpus": 2, "num_gpus": 1, "include_dashboard": True, "dashboard_port": port}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=2, num_gpus=1)
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    os.environ["PYTHONPATH"] = path


@pytest.fixture
def prepare(tmp_path: Path) -> Callable[..., Any]:
    """Prepare a run in folder `name`; `algorithm` takes the place of the configured one."""

    def run(name: str, *assignments: str, algorithm: Any = None, inline: bool = False, resume: bool = False) -> Any:
        config = load_config(None, {"rounds": ROUNDS, "clients": CLIENTS}, (*OPTIONS, *assignments))
        if algorithm is not None:
            fields = config.algorithm.model_dump()
            config = config.model_copy(update={"algorithm": algorithm(**fields, marks=str(tmp_path))})
        folders = Folders(run=tmp_path / name, cache=tmp_path / "cache", data=None)
        return prepare_run(config, folders, inline=inline, resume=resume, started=0.0)

    return run


def finish(run: Any) -> Path:
    *_, outcome = run.events()
    assert isinstance(outcome, Outcome)
    assert outcome.status == "completed", outcome.error
    folder: Path = run.job.folder
    return folder


def actors(name: str) -> list[Any]:
    """Return what Ray's own state says of the actors of a class that are alive."""
    import ray
    from ray.util.state import list_actors

    found = list_actors(address=ray.get_runtime_context().gcs_address, detail=True)
    return [actor for actor in found if actor.state == "ALIVE" and actor.class_name == name]


def placed(count: int) -> list[Any]:
    """Return the client actors, as soon as Ray's state, which lags behind, has `count` of them."""
    for _ in range(100):
        if len(found := actors("HostActor")) == count:
            break
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (DeadlyFedAvg, ("algorithm.name=fedavg", "algorithm.hidden=8")),
        # What a client is sent is large enough to stay in its actor, and crosses from one node to the other.
        (DeadlyFedPub, ("algorithm.name=fedpub", "dataset.num_features=300", "algorithm.hidden=128")),
        (DeadlyFedGnn, ("algorithm.name=fedgnn", "algorithm.hidden=8")),
    ],
    ids=["fedavg", "fedpub", "fedgnn"],
)
def test_a_client_actor_dies_inside_a_call(
    prepare: Callable[..., Any], algorithm: Any, options: tuple[str, ...]
) -> None:
    whole = finish(prepare("whole", LOOP, *options, inline=True))
    run = prepare("killed", LOOP, *options, "engine.gpus_per_client=1", algorithm=algorithm)
    back: list[int] = []
    nodes = set()
    for event in run.events():
        if isinstance(event, Started):
            nodes = {actor.node_id for actor in placed(2)}
        if isinstance(event, RolledBack):
            back.append(event.round)
    assert event.status == "completed", event.error
    assert len(nodes) == 2
    assert back == [0, 2]  # in round 1 to the set-up, in round 4, which may run before round 3 is saved, to round 2
    assert_same(whole, run.job.folder)


def test_a_client_that_dies_again_and_again_ends_the_run(prepare: Callable[..., Any]) -> None:
    options = ("algorithm.name=fedavg", "algorithm.hidden=8", "engine.clients_per_actor=4")
    *events, outcome = prepare("dying", *options, algorithm=Dying).events()
    assert [event.round for event in events if isinstance(event, RolledBack)] == [2] * MAX_LOSSES
    assert outcome.status == "failed"
    assert "the actor that holds clients 0, 1, 2, 3 died, for the 4th time since a checkpoint" in outcome.error
    assert [event.round for event in events if isinstance(event, RoundReport)][:2] == [1, 2]
    assert outcome.summary["rounds"] == 2


def test_the_coordinator_dies(prepare: Callable[..., Any]) -> None:
    options = ("algorithm.name=fedavg", "algorithm.hidden=8", "engine.clients_per_actor=4")
    run = prepare("killed", *options, algorithm=DeadlyCoordinator)
    *_, outcome = run.events()
    assert outcome.status == "failed"
    assert f"`fedgraph-sim run --resume {run.job.folder}` goes on from round-000002" in outcome.error
    resumed = finish(prepare("killed", *options, algorithm=DeadlyCoordinator, resume=True))
    assert_same(finish(prepare("whole", *options, inline=True)), resumed)


def test_the_driver_dies(prepare: Callable[..., Any], cluster: Any, tmp_path: Path) -> None:
    own = (LOOP, "algorithm.hidden=8", "rounds=100", "engine.clients_per_actor=4")
    command = [sys.executable, "-m", "fedgraph_sim", "run", "--address", cluster.address, "--name", "killed"]
    command += [part for option in (*OPTIONS, f"clients={CLIENTS}", *own) for part in ("--set", option)]
    environment = os.environ | {"FEDGRAPH_CACHE": str(tmp_path / "cache")}
    lines = []
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stderr is not None
        for line in driver.stderr:
            lines.append(line)
            if line.startswith("round 3/"):
                driver.kill()
    assert driver.returncode == -signal.SIGKILL, "".join(lines)
    for _ in range(300):
        if not actors("HostActor") + actors("CoordinatorActor"):
            break
        time.sleep(0.1)
    assert not actors("HostActor") + actors("CoordinatorActor")
    folder = tmp_path / "runs" / "killed"
    resume = [sys.executable, "-m", "fedgraph_sim", "run", "--inline", "--resume", folder]
    result = subprocess.run(resume, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert_same(finish(prepare("whole", *own, inline=True)), folder)


@pytest.mark.parametrize(
    ("algorithm", "named"),
    [(Hanging, "client 1"), (AllHanging, "one of the clients 0, 1, 2, 3, which share an actor,")],
)
def test_a_client_that_hangs_is_named_and_ended(prepare: Callable[..., Any], algorithm: Any, named: str) -> None:
    options = ("algorithm.name=fedavg", "algorithm.hidden=8", "engine.step_timeout=3", "engine.clients_per_actor=4")
    for event in prepare("hanging", *options, algorithm=algorithm).events():
        if isinstance(event, Started):
            (host,) = actors("HostActor")
    assert event.status == "failed"
    assert event.error.startswith(f"round 2, step hang: {named} gave no answer within")
    assert "engine.step_timeout=3 s" in event.error
    assert psutil.wait_procs([psutil.Process(host.pid)] if psutil.pid_exists(host.pid) else [], timeout=30)[1] == []


def test_a_node_dies_and_shares_of_gpus_are_kept(prepare: Callable[..., Any], cluster: Any, tmp_path: Path) -> None:
    options = (LOOP, "algorithm.name=fedavg", "algorithm.hidden=8", "engine.clients_per_actor=1")
    back = []
    for event in prepare("killed", *options, algorithm=Patient).events():
        if isinstance(event, Started):
            shares = Counter((actor.node_id, actor.required_resources["GPU"]) for actor in placed(4))
            assert [(share, count) for (_, share), count in shares.items()] == [(0.5, 2), (0.5, 2)]
            (node,) = cluster.worker_nodes
        if isinstance(event, RoundReport) and event.round == 2 and not back:
            while not (tmp_path / "killed" / "checkpoints" / "round-000002").exists():
                time.sleep(0.1)
            cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(num_cpus=2, num_gpus=1)  # for the two actors that have died
            (tmp_path / "go").touch()
        if isinstance(event, RolledBack):
            back.append(event.round)
    assert event.status == "completed", event.error
    assert back == [2]
    assert_same(finish(prepare("whole", *options, inline=True)), tmp_path / "killed")


def test_memory_is_level(prepare: Callable[..., Any]) -> None:
    options = ("algorithm.name=fedavg", "algorithm.hidden=8", "engine.clients_per_actor=4", "rounds=900")
    sizes: dict[int, list[int]] = {}
    pids: list[int] = []
    for event in prepare("long", *options, "engine.checkpoint_every=0").events():
        if isinstance(event, Started):
            pids = [actors(name)[0].pid for name in ("HostActor", "CoordinatorActor")]
        if isinstance(event, RoundReport) and event.round in (300, 899):
            sizes[event.round] = [psutil.Process(pid).memory_info().rss for pid in pids]
    assert event.status == "completed", event.error
    for before, after in zip(sizes[300], sizes[899], strict=True):
        assert after <= 1.05 * before


NODE = """
import sys, time
from ray._private.node import Node
from ray._private.parameter import RayParams
ports = {"min_worker_port": 0, "max_worker_port": 0, "node_manager_port": 0}
Node(RayParams(gcs_address=sys.argv[1], num_cpus=4, num_gpus=4, object_store_memory=10**8, **ports), head=False)
time.sleep(1000)
"""
"""Another node of the test's cluster, as Ray's own test clusters start theirs, but in a process of its own."""


def test_a_node_that_does_not_see_the_partition(
    prepare: Callable[..., Any], cluster: Any, tmp_path: Path, end_tree: Callable[[psutil.Process], None]
) -> None:
    import ray

    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mounts of its own for a process here")
    options = (LOOP, "algorithm.name=fedavg", "algorithm.hidden=8", "engine.clients_per_actor=1")
    whole = finish(prepare("whole", *options, inline=True))
    script = f"mount -t tmpfs none {tmp_path / 'cache'} && exec {sys.executable} -c '{NODE}' {cluster.address}"
    known = {node["NodeID"] for node in ray.nodes()}
    with (tmp_path / "node.log").open("w") as log:
        command = ["unshare", "--mount", "sh", "-c", script]
        node = psutil.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(300):
            apart = {node["NodeID"] for node in ray.nodes() if node["Alive"]} - known
            if apart:
                break
            time.sleep(0.2)
        assert apart, (tmp_path / "node.log").read_text()
        run = prepare("apart", *options, "engine.gpus_per_client=1")
        for event in run.events():
            if isinstance(event, Started):
                assert apart & {actor.node_id for actor in placed(4)}
        assert event.status == "completed", event.error
        assert_same(whole, run.job.folder)
    finally:
        end_tree(node)
