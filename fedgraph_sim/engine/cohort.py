"""All clients, wherever they live."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.client_axis import pick
from fedgraph_sim.engine.host import ClientHost, HostInfo
from fedgraph_sim.engine.replies import Here, Replies
from fedgraph_sim.engine.spread import HeldHere, Rows, Spread, expanded
from fedgraph_sim.engine.tree import Tree


class Cohort(Protocol):
    """What the coordinator needs of the places that hold clients."""

    seconds_here: float
    """CPU seconds that steps have taken in the coordinator's own thread."""

    @property
    def hosts(self) -> tuple[HostInfo, ...]:
        """What to report of each place."""

    def run(self, call: Call) -> Replies:
        """Begin to run the step for the call's clients, after whatever they were asked before."""

    def publish(self, tree: Tree) -> None:
        """Give `tree` to all clients, to keep: one copy in each process."""

    def spread(self, tree: Tree) -> Spread:
        """Let each place hold `tree` as the row of each of its clients."""

    def hold(self, rows: Tree, clients: Sequence[int]) -> Spread:
        """Let each place hold the rows of its own among `clients`; every leaf has a leading client axis."""

    def states(self) -> dict[int, Tree]:
        """Return every client's state."""

    def restore(self, states: Mapping[int, Tree]) -> None:
        """Give every client another state."""

    def lost(self) -> str:
        """Say which places have died, and with them their clients' states; nothing while all are there."""

    def replace_lost(self) -> None:
        """Start those places again, with their clients in no state."""

    def peak_memory(self) -> tuple[int, ...]:
        """Return the largest resident size so far of each process that holds clients, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """One place's share of a call; `positions` are its clients' positions in the whole call."""

    place: int
    positions: Sequence[int]
    call: Call


def shares(call: Call, home: Mapping[int, int]) -> list[Share]:
    """Divide a call among the places that hold its clients, `home` being each client's place."""
    divided = []
    for place, own in positions_by_place(call.clients, home).items():
        clients = tuple(call.clients[at] for at in own)
        each = call.each.rows(clients) if isinstance(call.each, Spread) else pick(call.each, own)
        divided.append(Share(place=place, positions=own, call=replace(call, clients=clients, each=each)))
    return divided


def positions_by_place(clients: Sequence[int], home: Mapping[int, int]) -> dict[int, list[int]]:
    """Return, for each place that holds some of `clients`, their positions among them; places in order."""
    positions: dict[int, list[int]] = {}
    for position, client in enumerate(clients):
        positions.setdefault(home[client], []).append(position)
    return dict(sorted(positions.items()))


def homes(places: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the place of each client."""
    return {client: place for place, clients in enumerate(places) for client in clients}


def with_rows(call: Call, held: Tree | StepFailure, positions: Sequence[int]) -> Call | StepFailure:
    """Return the call with its clients' rows, at `positions` of what their place holds, as their messages."""
    return held if isinstance(held, StepFailure) else replace(call, each=pick(held, positions))


class InlineCohort:
    """All clients in this process, in the same hosts as they would have actors: results are the same to the bit."""

    def __init__(self, places: Sequence[Sequence[int]], hosts: Sequence[ClientHost]) -> None:
        self._places = places
        self._home = homes(places)
        self._hosts = hosts
        self.seconds_here = 0.0
        self.hosts = tuple(host.describe() for host in hosts)

    def run(self, call: Call) -> Replies:
        """Run the step here."""
        if isinstance(call.shared, HeldHere):
            message = call.shared.tree()
            if isinstance(message, StepFailure):
                raise message.error()
            call = replace(call, shared=message)
        divided = shares(call, self._home)
        parts = []
        begin_thread = time.thread_time()
        for share in divided:
            begin = time.perf_counter()
            rows = share.call.each
            own = with_rows(share.call, rows.held.tree(), rows.positions) if isinstance(rows, Rows) else share.call
            tree = own if isinstance(own, StepFailure) else self._hosts[share.place].run(own)
            if isinstance(tree, StepFailure):
                raise tree.error()
            assert isinstance(own, Call)
            parts.append(Here(tree, own, time.perf_counter() - begin))
        self.seconds_here += time.thread_time() - begin_thread
        return Replies(call.clients, parts, [share.positions for share in divided], apart=self._hosts[0].batched)

    def publish(self, tree: Tree) -> None:
        """Give `tree` to all clients."""
        for host in self._hosts:
            host.publish(tree)

    def spread(self, tree: Tree) -> Spread:
        """Repeat `tree` for each place."""
        parts = [HeldHere(expanded(tree, len(clients))) for clients in self._places]
        return Spread(range(len(self._home)), parts, self._places, apart=self._hosts[0].batched)

    def hold(self, rows: Tree, clients: Sequence[int]) -> Spread:
        """Divide the rows among the places."""
        positions = positions_by_place(clients, self._home)
        parts = [HeldHere(pick(rows, own)) for own in positions.values()]
        return Spread(clients, parts, list(positions.values()), apart=self._hosts[0].batched)

    def restore(self, states: Mapping[int, Tree]) -> None:
        """Give every client another state."""
        for host in self._hosts:
            host.restore(states)

    def lost(self) -> str:
        """Return nothing: what dies here ends the run."""
        return ""

    def replace_lost(self) -> None:
        """Do nothing."""

    def states(self) -> dict[int, Tree]:
        """Return every client's state."""
        states = {client: state for host in self._hosts for client, state in host.states().items()}
        return dict(sorted(states.items()))

    def peak_memory(self) -> tuple[int, ...]:
        """Return nothing: no process but the coordinator's holds clients."""
        return ()
