"""The one place where plain hosts and the coordinator become Ray actors.

Nothing here imports torch at the top: the coordinator's process starts the hosts first, so that all of them pay for
that import at the same time.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedgraph_sim.errors import RunError

if TYPE_CHECKING:
    from fedgraph_sim.engine.federation import Call, StepFailure
    from fedgraph_sim.engine.job import Job
    from fedgraph_sim.engine.report import Event
    from fedgraph_sim.engine.tree import Tree

START_TIMEOUT = 300.0
"""Seconds after which actors that have not started are taken for stuck."""


class HostActor:
    """The body of a client actor: a host behind arrays, which the object store holds without a copy."""

    def __init__(self, job: "Job", place: int) -> None:
        import torch

        from fedgraph_sim.engine.host import host_of

        self._host = host_of(job, place, use_cuda=bool(ray.get_gpu_ids()))
        torch.func.grad(torch.sum)(torch.ones(1))  # loads what the first round would otherwise wait for

    def run(self, call: "Call", shared: "Tree") -> "Tree | StepFailure":
        """Run the step of `call` with its messages, arrays, as tensors; `shared` is the message to all."""
        from fedgraph_sim.engine.arrays import to_arrays, to_tensors
        from fedgraph_sim.engine.federation import StepFailure

        replies = self._host.run(replace(call, shared=to_tensors(shared), each=to_tensors(call.each)))
        return replies if isinstance(replies, StepFailure) else to_arrays(replies)

    def states(self) -> "dict[int, Tree]":
        """Return the states of this actor's clients, as arrays."""
        from fedgraph_sim.engine.arrays import to_arrays

        states: dict[int, Tree] = to_arrays(self._host.states())
        return states

    def device(self) -> str:
        """Return "cpu" or "cuda"."""
        return self._host.device

    def peak_memory(self) -> int:
        """Return the largest resident size of this process so far, in bytes."""
        return self._host.peak_memory()


class RayCohort:
    """Clients in actors: one remote call per actor and step, replies in the order asked, whoever answers first."""

    def __init__(self, job: "Job") -> None:
        placement = job.placement
        actor: Any = ray.remote(num_cpus=placement.cpus, num_gpus=placement.gpus)(HostActor)
        self._places = placement.actors
        self._hosts = [actor.remote(job, place) for place in range(len(placement.actors))]
        self.devices: tuple[str, ...] = ()

    def wait(self) -> None:
        """Wait until every host holds its clients."""
        try:
            self.devices = tuple(ray.get([host.device.remote() for host in self._hosts], timeout=START_TIMEOUT))
        except GetTimeoutError:
            raise RunError(
                f"{len(self._hosts)} client actors did not start within {START_TIMEOUT:.0f} s; "
                "another job may hold the cluster's CPUs or GPUs: see `ray status`"
            ) from None
        except RayActorError as error:
            raise RunError("a client actor died while it loaded its clients", str(error)) from None

    def run(self, call: "Call") -> "Tree | StepFailure":
        """Run the step on all actors at once and put the replies in the call's order."""
        from fedgraph_sim.engine.arrays import to_arrays, to_tensors
        from fedgraph_sim.engine.client_axis import gather
        from fedgraph_sim.engine.cohort import homes, shares
        from fedgraph_sim.engine.federation import StepFailure

        shared = None if call.shared is None else ray.put(to_arrays(call.shared))
        divided = shares(replace(call, shared=None), homes(self._places))
        references = [
            self._hosts[share.place].run.remote(replace(share.call, each=to_arrays(share.call.each)), shared)
            for share in divided
        ]
        replies = []
        for share, reference in zip(divided, references, strict=True):
            reply = self._get(reference, f"round {call.round}, step {call.step}", share.place)
            if isinstance(reply, StepFailure):
                return reply
            replies.append(to_tensors(reply))
        return gather(replies, [share.positions for share in divided])

    def _get(self, reference: Any, when: str, place: int) -> Any:
        try:
            return ray.get(reference)
        except RayActorError as error:
            held = ", ".join(map(str, self._places[place]))
            raise RunError(f"{when}: the actor that holds clients {held} died", str(error)) from None

    def states(self) -> "dict[int, Tree]":
        """Return every client's state."""
        from fedgraph_sim.engine.arrays import to_tensors

        states = {}
        for part in ray.get([host.states.remote() for host in self._hosts]):
            states.update(to_tensors(part))
        return dict(sorted(states.items()))

    def peak_memory(self) -> tuple[int, ...]:
        """Return the largest resident size so far of each actor that is alive, in bytes; 0 for one that is not."""
        sizes = []
        for reference in [host.peak_memory.remote() for host in self._hosts]:
            try:
                sizes.append(ray.get(reference))
            except RayActorError:
                sizes.append(0)
        return tuple(sizes)


class CoordinatorActor:
    """The body of the coordinator's actor; it owns the client actors."""

    def __init__(self, job: "Job") -> None:
        self._cohort = RayCohort(job)

        from fedgraph_sim.engine.coordinator import Coordinator

        self._coordinator = Coordinator(job, self._cohort)

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
    return actor.options(num_cpus=0, max_concurrency=2, scheduling_strategy=here).remote(job)
