"""Clients in actors, as the coordinator sees them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import count
from typing import Any
from weakref import finalize

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError, RayActorError
from torch import Tensor

from fedgraph_sim.counts import counted
from fedgraph_sim.engine.arrays import to_arrays, to_tensors
from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.client_axis import pick
from fedgraph_sim.engine.cohort import homes, positions_by_place, shares
from fedgraph_sim.engine.host import HostInfo
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.replies import Receipt, Replies
from fedgraph_sim.engine.served_host import Answer, Own, OwnRows
from fedgraph_sim.engine.spread import Rows, Spread
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.errors import RunError

START_TIMEOUT = 300.0
"""Seconds after which actors that have not started are taken for stuck."""


PROBE_TIMEOUT = 5.0
"""Seconds in which an actor that has died is known to have."""


class RemoteHost:
    """A host in an actor; `clients` are those that live there, `lost` says why it is gone.

    With a `timeout` in seconds, an answer that does not come ends the run.
    """

    def __init__(self, actor: Any, clients: Sequence[int], timeout: float | None) -> None:
        self.actor = actor
        self.clients = clients
        self.lost = ""
        self.numbers = count()
        self.released: list[int] = []
        self._timeout = timeout
        self._steps: dict[str, Any] = {}
        self._round = 0

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return a reference to what a method of `ServedHost` will return; the host does what it is asked in order."""
        return self.actor.ask.remote(method, *arguments)

    def begin(self, call: Call, shared: Any) -> "There":
        """Ask for a step; `shared` refers to the message to all, or is what an actor holds."""
        each = call.each
        if isinstance(each, Rows):
            assert isinstance(each.held, HeldThere)
            each = OwnRows(each.held.number, each.positions)
        else:
            each = to_arrays(each)
        number = next(self.numbers)
        released = tuple(self.released)
        self.released.clear()
        message = self.argument(shared)
        answer = self.ask("run", number, replace(call, shared=None, each=each), message, released)
        when = f"round {call.round}, step {call.step}"
        if call.round != self._round:
            self._round, self._steps = call.round, {}
        self._steps[when] = answer, call.clients
        return There(self, number, cache(partial(self.get, answer, when=when)))

    def argument(self, value: Any) -> Any:
        """Return what stands for `value` when this host is asked for something with it."""
        if not isinstance(value, HeldThere):
            return value
        return Own(value.number) if value.host is self else value.shown

    def get(self, reference: Any, *, when: str) -> Any:
        """Wait for what `reference` refers to."""
        try:
            return ray.get(reference, timeout=self._timeout)
        except GetTimeoutError:
            raise RunError(
                f"{self._hung(when)} gave no answer within engine.step_timeout={self._timeout:g} s; raise it if steps "
                "may take that long"
            ) from None
        except (RayActorError, ObjectLostError) as error:
            self.lost = self.lost or str(error)
            raise RunError(f"{when}: {self} died", str(error)) from None

    def _hung(self, when: str) -> str:
        """Name the first step of this round that is not over, and the clients that were asked for it."""
        for step, (answer, clients) in self._steps.items():
            if not ray.wait([answer], timeout=0)[0]:
                one = f"one of the clients {_listed(clients)}, which share an actor,"
                return f"{step}: client {clients[0]}" if len(clients) == 1 else f"{step}: {one}"
        return f"{when}: {self}"

    def __str__(self) -> str:
        return f"the actor that holds clients {_listed(self.clients)}"


def _listed(clients: Sequence[int]) -> str:
    return ", ".join(map(str, clients))


class There:
    """The replies of one actor's clients, which may still be computing them; `answer` waits for the step."""

    def __init__(self, host: RemoteHost, number: int, answer: Callable[[], Answer | StepFailure]) -> None:
        self._host = host
        self._number = number
        self._answer = answer
        self.receipt: Callable[[], Receipt | StepFailure] = partial(_receipt, answer)
        finalize(self, host.released.append, number)

    def tree(self, key: str | None = None) -> Tree | StepFailure:
        """Bring the replies here, or a part of them."""
        answer = self._answer()
        if isinstance(answer, StepFailure):
            return answer
        if answer.complete if key is None else key in answer.tree:
            return to_tensors(answer.tree if key is None else answer.tree[key])
        return self._host.get(self._host.ask("tree", self._number, key), when="replies").tree()

    def keep(self, key: str | None = None) -> "HeldThere":
        """Let the actor hold the replies, or a part of them."""
        held = HeldThere(self._host)
        self._host.ask("keep", held.number, key, self._number)
        return held

    def weighted_sum(self, key: str, weights: Tensor) -> Callable[[], Tree | StepFailure]:
        """Let the actor add up its own clients, as soon as it has their replies."""
        pending = self._host.ask("weighted_sum", self._number, key, weights.numpy())
        return lambda: self._host.get(pending, when="mean of replies").tree()


def _receipt(answer: Callable[[], Answer | StepFailure]) -> Receipt | StepFailure:
    known = answer()
    return replace(known.receipt, kinds=to_tensors(known.receipt.kinds)) if isinstance(known, Answer) else known


class HeldThere:
    """A tree in an actor, under `number`."""

    def __init__(self, host: RemoteHost) -> None:
        self.host = host
        self.number = next(host.numbers)
        finalize(self, host.released.append, self.number)

    @cached_property
    def shown(self) -> Any:
        """A reference to the tree in the object store, where the actor puts it when it is first wanted elsewhere."""
        return self.host.ask("show", self.number)

    def offer(self) -> None:
        """Ask the actor for that."""
        _ = self.shown

    def compute(self, function: Callable[..., Tree], *arguments: Any) -> "HeldThere":
        """Let the actor compute, with what other actors hold fetched from them."""
        result = HeldThere(self.host)
        self.host.ask("compute", result.number, function, Own(self.number), *map(self.host.argument, arguments))
        return result

    def tree(self) -> Tree | StepFailure:
        """Bring the tree here."""
        return self.host.get(self.shown, when="rows of the clients").tree()


class RayCohort:
    """Clients in actors: one remote call per actor and step, replies in the order asked, whoever answers first.

    `start` starts the actor of a place once more.
    """

    def __init__(self, job: Job, actors: Sequence[Any], start: Callable[[int], Any]) -> None:
        self._places = job.placement.actors
        self._home = homes(self._places)
        self._start = start
        self._timeout = job.config.engine.step_timeout or None
        self._hosts = [
            RemoteHost(actor, clients, self._timeout) for actor, clients in zip(actors, self._places, strict=True)
        ]
        self.hosts: tuple[HostInfo, ...] = ()
        self.seconds_here = 0.0
        self._apart = job.config.engine.batched

    def wait(self) -> None:
        """Wait until every host holds its clients."""
        try:
            self.hosts = tuple(ray.get([host.ask("describe") for host in self._hosts], timeout=START_TIMEOUT))
        except GetTimeoutError:
            raise RunError(
                f"{counted(len(self._hosts), 'client actor')} did not start within {START_TIMEOUT:.0f} s; "
                "another job may hold the cluster's CPUs or GPUs: see `ray status`"
            ) from None
        except RayActorError as error:
            raise RunError("a client actor died while it loaded its clients", str(error)) from None

    def run(self, call: Call) -> Replies:
        """Begin to run the step on all actors at once."""
        shared = call.shared
        if shared is not None and not isinstance(shared, HeldThere):
            shared = ray.put(to_arrays(shared))
        divided = shares(replace(call, shared=None), self._home)
        parts = [self._hosts[share.place].begin(share.call, shared) for share in divided]
        return Replies(call.clients, parts, [share.positions for share in divided], apart=self._apart)

    def publish(self, tree: Tree) -> None:
        """Give `tree` to all clients; the actors of one machine share its memory."""
        shared = ray.put(to_arrays(tree))
        for host, pending in [(host, host.ask("publish", shared)) for host in self._hosts]:
            host.get(pending, when="set-up")

    def spread(self, tree: Tree) -> Spread:
        """Let each actor hold `tree` as the row of each of its clients."""
        shared = ray.put(to_arrays(tree))
        parts = []
        for host in self._hosts:
            parts.append(HeldThere(host))
            host.ask("expand", parts[-1].number, shared, len(host.clients))
        return Spread(range(len(self._home)), parts, self._places, apart=self._apart)

    def hold(self, rows: Tree, clients: Sequence[int]) -> Spread:
        """Let each actor hold the rows of its own among `clients`."""
        positions = positions_by_place(clients, self._home)
        parts = []
        for place, own in positions.items():
            parts.append(HeldThere(self._hosts[place]))
            self._hosts[place].ask("hold", parts[-1].number, to_arrays(pick(rows, own)))
        return Spread(clients, parts, list(positions.values()), apart=self._apart)

    def states(self) -> dict[int, Tree]:
        """Return every client's state."""
        states: dict[int, Tree] = {}
        for host, pending in [(host, host.ask("states")) for host in self._hosts]:
            states.update(to_tensors(host.get(pending, when="states of the clients")))
        return dict(sorted(states.items()))

    def restore(self, states: Mapping[int, Tree]) -> None:
        """Give every client another state."""
        pending = [
            host.ask("restore", {client: to_arrays(states[client]) for client in host.clients}) for host in self._hosts
        ]
        for host, reference in zip(self._hosts, pending, strict=True):
            host.get(reference, when="states of the clients")

    def lost(self) -> str:
        """Say which actors have died. One that is busy is taken to be alive."""
        asked = {host.ask("describe"): host for host in self._hosts if not host.lost}
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=PROBE_TIMEOUT) if asked else ([], [])
        for reference in answered:
            with suppress(RunError):
                asked[reference].get(reference, when="")
        return "; ".join(f"{host} died" for host in self._hosts if host.lost)

    def replace_lost(self) -> None:
        """Start other actors in the place of those that have died, and wait for them."""
        for place, host in enumerate(self._hosts):
            if host.lost:
                ray.kill(host.actor)  # which may only have been out of reach
                self._hosts[place] = RemoteHost(self._start(place), host.clients, self._timeout)
        self.wait()

    def peak_memory(self) -> tuple[int, ...]:
        """Return the largest resident size so far of each actor, in bytes; 0 for one that gives no answer any more."""
        asked = [host.ask("peak_memory") for host in self._hosts]
        answered, _ = ray.wait(asked, num_returns=len(asked), timeout=PROBE_TIMEOUT)
        sizes = []
        for host, reference in zip(self._hosts, asked, strict=True):
            try:
                sizes.append(host.get(reference, when="") if reference in answered else 0)
            except RunError:
                sizes.append(0)
        return tuple(sizes)
