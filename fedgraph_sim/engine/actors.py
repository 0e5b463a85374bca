"""The one place where plain hosts and the coordinator become Ray actors.

Importing torch takes seconds. Nothing here does so at the top, and a job travels as a reference within a list, which
Ray does not look into: the coordinator's process starts the hosts before it imports anything, and all import together.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

if TYPE_CHECKING:
    from fedgraph_sim.engine.job import Job
    from fedgraph_sim.engine.report import Event


class HostActor:
    """The body of a client actor: a `ServedHost`, which can only be imported where it is wanted."""

    def __init__(self, job: list[Any], home: str, place: int) -> None:
        import torch

        from fedgraph_sim.engine.host import host_of
        from fedgraph_sim.engine.served_host import ServedHost

        read: Job = ray.get(job[0])
        self._host = ServedHost(host_of(read, place, use_cuda=bool(ray.get_gpu_ids()), load=partial(_load, home)))
        torch.func.grad(torch.sum)(torch.ones(1))  # loads what the first round would otherwise wait for

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the `ServedHost` returns."""
        return getattr(self._host, method)(*arguments)


def _load(home: str, job: "Job", clients: Sequence[int]) -> dict[int, Any]:
    """Read the clients' data, on the machine `home` if this one does not see the partition store."""
    from fedgraph_sim.engine.host import load_clients

    if job.store.is_dir():
        return load_clients(job, clients)
    there = NodeAffinitySchedulingStrategy(home, soft=False)
    remote: Any = ray.remote(load_clients)
    graphs: dict[int, Any] = ray.get(remote.options(num_cpus=0, scheduling_strategy=there).remote(job, clients))
    return deepcopy(graphs)  # the store's arrays are read-only


class CoordinatorActor:
    """The body of the coordinator's actor; it owns the client actors."""

    def __init__(self, job: list[Any], num_hosts: int, cpus: float, gpus: float) -> None:
        actor: Any = ray.remote(num_cpus=cpus, num_gpus=gpus)(HostActor)
        start = partial(actor.remote, job, ray.get_runtime_context().get_node_id())
        hosts = [start(place) for place in range(num_hosts)]

        from fedgraph_sim.engine.coordinator import Coordinator
        from fedgraph_sim.engine.ray_cohort import RayCohort

        read: Job = ray.get(job[0])
        self._cohort = RayCohort(read, hosts, start)
        self._coordinator = Coordinator(read, self._cohort)

    def run(self) -> "Iterator[Event]":
        """Yield the events of the run, as they happen."""
        yield from self._coordinator.run(before=self._cohort.wait)

    def stop(self) -> None:
        """Ask the run to end after the round that is under way."""
        self._coordinator.stop()


def start_coordinator(job: "Job") -> Any:
    """Start the coordinator's actor on this machine, where the run's folder is, and return its handle."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # Two threads: `stop` must get through while `run` is under way.
    actor: Any = ray.remote(CoordinatorActor)
    placement = job.placement
    options = {"num_cpus": 0, "num_gpus": placement.server_gpus, "max_concurrency": 2, "scheduling_strategy": here}
    return actor.options(**options).remote([ray.put(job)], len(placement.actors), placement.cpus, placement.gpus)
