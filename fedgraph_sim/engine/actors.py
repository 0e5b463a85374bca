"""The one place where plain hosts and the coordinator become Ray actors.

Importing torch takes seconds. Nothing here does so at the top, and a job travels as a reference within a list, which
Ray does not look into: the coordinator's process starts the hosts before it imports anything, and all import together.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

import ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedgraph_sim.errors import RunError

if TYPE_CHECKING:
    from torch import Tensor

    from fedgraph_sim.engine.call import Call, StepFailure
    from fedgraph_sim.engine.host import HostInfo
    from fedgraph_sim.engine.job import Job
    from fedgraph_sim.engine.replies import Here, Receipt, Replies
    from fedgraph_sim.engine.report import Event
    from fedgraph_sim.engine.tree import Tree

START_TIMEOUT = 300.0
"""Seconds after which actors that have not started are taken for stuck."""


LARGE = 1 << 20
"""Bytes from which replies stay in their actor until the server asks for them."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an actor sends after a step: a `Receipt` with arrays, and its clients' replies unless they are large."""

    receipt: "Receipt"
    tree: "Tree"
    held: bool


class HostActor:
    """The body of a client actor: a host behind arrays, which the object store holds without a copy."""

    def __init__(self, job: list[Any], place: int) -> None:
        import torch

        from fedgraph_sim.engine.host import host_of

        self._host = host_of(ray.get(job[0]), place, use_cuda=bool(ray.get_gpu_ids()))
        self._held: dict[int, Here] = {}
        torch.func.grad(torch.sum)(torch.ones(1))  # loads what the first round would otherwise wait for

    def run(self, call: "Call", shared: "Tree", number: int, released: tuple[int, ...]) -> "Answer | StepFailure":
        """Run the step of `call` with its messages, arrays, as tensors; `shared` is the message to all.

        The replies stay here under `number` until they are released; small ones are also returned.
        """
        from fedgraph_sim.engine.arrays import to_arrays, to_tensors
        from fedgraph_sim.engine.call import StepFailure
        from fedgraph_sim.engine.replies import Here

        for old in released:
            self._held.pop(old, None)
        begin = time.perf_counter()
        tree = self._host.run(replace(call, shared=to_tensors(shared), each=to_tensors(call.each)))
        seconds = time.perf_counter() - begin
        if isinstance(tree, StepFailure):
            return tree
        here = self._held[number] = Here(tree, replace(call, each=None), seconds)
        receipt = here.receipt()
        assert not isinstance(receipt, StepFailure)
        held = bool(receipt.num_bytes.sum() >= LARGE)
        if not held and isinstance(tree := here.tree(), StepFailure):
            return tree
        return Answer(
            receipt=replace(receipt, kinds=to_arrays(receipt.kinds)), tree=None if held else to_arrays(tree), held=held
        )

    def tree(self, number: int) -> "Tree | StepFailure":
        """Return replies that were held."""
        return _arrays(self._held[number].tree())

    def weighted_sum(self, number: int, key: str, weights: Any) -> "Tree | StepFailure":
        """Return the weighted sum, over this actor's clients, of a part of its replies; nothing if the step failed."""
        import torch

        if number not in self._held:
            return None
        return _arrays(self._held[number].weighted_sum(key, torch.from_numpy(weights))())

    def publish(self, tree: "Tree") -> None:
        """Let all clients here see `tree`, of arrays, from now on."""
        from fedgraph_sim.engine.arrays import to_tensors

        self._host.publish(to_tensors(tree))

    def states(self) -> "dict[int, Tree]":
        """Return the states of this actor's clients, as arrays."""
        from fedgraph_sim.engine.arrays import to_arrays

        states: dict[int, Tree] = to_arrays(self._host.states())
        return states

    def describe(self) -> "HostInfo":
        """Return what the run reports of this host."""
        return self._host.describe()

    def peak_memory(self) -> int:
        """Return the largest resident size of this process so far, in bytes."""
        from fedgraph_sim.engine.memory import peak_memory

        return peak_memory()


def _arrays(value: "Tree | StepFailure") -> "Tree | StepFailure":
    from fedgraph_sim.engine.arrays import to_arrays
    from fedgraph_sim.engine.call import StepFailure

    return value if isinstance(value, StepFailure) else to_arrays(value)


def _tensors(value: "Tree | StepFailure") -> "Tree | StepFailure":
    from fedgraph_sim.engine.arrays import to_tensors
    from fedgraph_sim.engine.call import StepFailure

    return value if isinstance(value, StepFailure) else to_tensors(value)


class There:
    """The replies of one actor's clients, which may still be computing them.

    `answer` waits for the step, `get` for anything else that the actor is asked.
    """

    def __init__(
        self,
        host: Any,
        number: int,
        answer: "Callable[[], Answer | StepFailure]",
        released: list[int],
        get: "Callable[[Any], Any]",
    ) -> None:
        self._host = host
        self._number = number
        self._answer = answer
        self._get = get
        self.receipt: Callable[[], Receipt | StepFailure] = partial(_receipt, answer)
        finalize(self, released.append, number)

    def tree(self) -> "Tree | StepFailure":
        """Bring the replies here."""
        answer = self._answer()
        if not isinstance(answer, Answer):
            return answer
        return _tensors(self._get(self._host.tree.remote(self._number)) if answer.held else answer.tree)

    def weighted_sum(self, key: str, weights: "Tensor") -> "Callable[[], Tree | StepFailure]":
        """Let the actor add up its own clients, as soon as it has their replies."""
        pending = self._host.weighted_sum.remote(self._number, key, weights.numpy())

        def wait() -> "Tree | StepFailure":
            answer = self._answer()
            return _tensors(self._get(pending)) if isinstance(answer, Answer) else answer

        return wait


def _receipt(answer: "Callable[[], Answer | StepFailure]") -> "Receipt | StepFailure":
    from fedgraph_sim.engine.arrays import to_tensors

    known = answer()
    return replace(known.receipt, kinds=to_tensors(known.receipt.kinds)) if isinstance(known, Answer) else known


class RayCohort:
    """Clients in actors: one remote call per actor and step, replies in the order asked, whoever answers first."""

    def __init__(self, job: "Job", hosts: list[Any]) -> None:
        from fedgraph_sim.engine.cohort import homes

        self._places = job.placement.actors
        self._home = homes(self._places)
        self._hosts = hosts
        self.hosts: tuple[HostInfo, ...] = ()
        self._apart = job.config.engine.batched
        self._number = 0
        self._released: list[list[int]] = [[] for _ in self._hosts]

    def wait(self) -> None:
        """Wait until every host holds its clients."""
        try:
            self.hosts = tuple(ray.get([host.describe.remote() for host in self._hosts], timeout=START_TIMEOUT))
        except GetTimeoutError:
            raise RunError(
                f"{len(self._hosts)} client actors did not start within {START_TIMEOUT:.0f} s; "
                "another job may hold the cluster's CPUs or GPUs: see `ray status`"
            ) from None
        except RayActorError as error:
            raise RunError("a client actor died while it loaded its clients", str(error)) from None

    def run(self, call: "Call") -> "Replies":
        """Begin to run the step on all actors at once."""
        from fedgraph_sim.engine.arrays import to_arrays
        from fedgraph_sim.engine.cohort import shares
        from fedgraph_sim.engine.replies import Replies

        self._number += 1
        shared = None if call.shared is None else ray.put(to_arrays(call.shared))
        divided = shares(replace(call, shared=None), self._home)
        parts = []
        for share in divided:
            host, released = self._hosts[share.place], self._released[share.place]
            own = replace(share.call, each=to_arrays(share.call.each))
            reference = host.run.remote(own, shared, self._number, tuple(released))
            released.clear()
            get = partial(self._get, when=f"round {call.round}, step {call.step}", place=share.place)
            parts.append(There(host, self._number, cache(partial(get, reference)), released, get))
        return Replies(call.clients, parts, [share.positions for share in divided], apart=self._apart)

    def publish(self, tree: "Tree") -> None:
        """Give `tree` to all clients; the actors of one machine share its memory."""
        from fedgraph_sim.engine.arrays import to_arrays

        shared = ray.put(to_arrays(tree))
        pending = [host.publish.remote(shared) for host in self._hosts]
        for place, reference in enumerate(pending):
            self._get(reference, when="set-up", place=place)

    def _get(self, reference: Any, *, when: str, place: int) -> Any:
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

    def __init__(self, job: list[Any], num_hosts: int, cpus: float, gpus: float) -> None:
        actor: Any = ray.remote(num_cpus=cpus, num_gpus=gpus)(HostActor)
        hosts = [actor.remote(job, place) for place in range(num_hosts)]

        from fedgraph_sim.engine.coordinator import Coordinator

        read: Job = ray.get(job[0])
        self._cohort = RayCohort(read, hosts)
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
    return actor.options(num_cpus=0, max_concurrency=2, scheduling_strategy=here).remote(
        [ray.put(job)], len(placement.actors), placement.cpus, placement.gpus
    )
