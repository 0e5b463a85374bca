"""The boundary between the parties: all that passes between server and clients passes through here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fedgraph_sim.engine.algorithm import ClientStep
from fedgraph_sim.engine.call import Call
from fedgraph_sim.engine.client_axis import pick
from fedgraph_sim.engine.ledger import SERVER, Ledger, num_bytes
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.replies import Receipt, Replies
from fedgraph_sim.engine.spread import Add, Spread, added
from fedgraph_sim.engine.system import System
from fedgraph_sim.engine.tree import Tree, leaves
from fedgraph_sim.seeds import seed_for

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """What is known before the start: the sizes that a model depends on and, to the server, who is linked to whom.

    `client_graph` [num_clients, num_clients], row = target, holds the weights of the links between different clients:
    those of the edges from one's nodes to the other's, added up, or what the data set says. Of one node per client it
    is the graph itself. None where there is no server that could know it.
    """

    num_features: int
    num_classes: int
    client_graph: sparse.csr_array | None = None


class Runner(Protocol):
    """Whatever can run a step for clients."""

    seconds_here: float
    """CPU seconds that steps have taken in the server's own thread, where clients live in its process."""

    def run(self, call: Call) -> Replies:
        """Begin to run the step for the call's clients, after whatever they were asked before."""

    def publish(self, tree: Tree) -> None:
        """Give `tree` to all clients, to keep."""

    def spread(self, tree: Tree) -> Spread:
        """Let each place hold `tree` as the row of each of its clients."""


class Federation:
    """The server's view of its clients.

    Calls are promises: `call` returns at once, and who looks at the replies waits for them. What clients are asked they
    do in the order in which they were asked.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        num_clients: int,
        task: Task,
        seed: int,
        fraction: float = 1.0,
        ledger: Ledger,
        device: torch.device = CPU,
        system: System | None = None,
    ) -> None:
        self.clients = tuple(range(num_clients))
        self.task = task
        self.seed = seed
        self.fraction = fraction
        self.ledger = ledger
        self.device = device
        """Where a model of the server's own may train; replies come, and its state stays, on the CPU."""
        self.system = system
        self._runner = runner
        self.published: Tree = None
        """What clients see now, for checkpoints."""
        self._unsettled: list[tuple[str, Callable[[], float]]] = []
        self._matrices: dict[str, ClientMatrix] = {}
        self.begin(round=0, kind="setup")

    def begin(self, *, round: int, kind: str) -> None:
        """Name what the next calls belong to; the coordinator does this, algorithms do not."""
        self.round = round
        self._kind = kind
        self._num_calls = 0
        if self.system is not None and kind == "train":
            self.system.begin(round=round)

    @property
    def seconds_here(self) -> float:
        """CPU seconds so far that client steps, and not the server, have taken in this thread."""
        return self._runner.seconds_here

    def settle(self) -> dict[str, float]:
        """Wait for all calls so far and enter them into the ledger; return the seconds of their steps by kind."""
        unsettled, self._unsettled = self._unsettled, []
        seconds: dict[str, float] = {}
        for kind, settle in unsettled:
            seconds[kind] = seconds.get(kind, 0.0) + settle()
        return seconds

    def sample(self) -> tuple[int, ...]:
        """Return this round's participants: round(fraction * num_clients) of them, at least one, sorted."""
        return sample(len(self.clients), fraction=self.fraction, seed=self.seed, round=self.round)

    def publish(self, tree: Tree, *, clients: Sequence[int] | None = None) -> None:
        """Send each client (default: all) the same `tree`, to keep: steps find it as `client.public`.

        There is one copy per process, which takes the place of what was published before; so `clients` are those that
        are asked for anything until the next time.
        """
        receivers = np.array(self.clients if clients is None else clients, np.int64)
        sizes = np.full(len(receivers), num_bytes(_checked(tree, "publish")), np.int64)
        self._numbered("publish")(sender=SERVER, receiver=receivers, num_bytes=sizes)
        self.published = tree
        self._runner.publish(tree)

    def record(self, name: str, matrix: Tensor, *, clients: Sequence[int]) -> None:
        """Show a number for each pair of `clients`, [num_clients, num_clients], to whoever looks at the run.

        It is written in evaluated rounds; of several under one name the last counts.
        """
        values = matrix.numpy(force=True).astype(np.float32)
        self._matrices[name] = ClientMatrix(name=name, round=self.round, clients=tuple(clients), values=values)

    def restore(self, public: Tree, matrices: Sequence[ClientMatrix]) -> None:
        """Go back to what was published and recorded at a checkpoint; the coordinator does this, algorithms do not."""
        self.begin(round=0, kind="setup")
        self._unsettled = []
        self._matrices = {matrix.name: matrix for matrix in matrices}
        self.published = public
        if public is not None:
            self._runner.publish(public)

    @property
    def waiting_matrices(self) -> list[ClientMatrix]:
        """What was recorded and not yet taken."""
        return list(self._matrices.values())

    def take_matrices(self) -> list[ClientMatrix]:
        """Return what was recorded since the last time; the coordinator does this, algorithms do not."""
        taken, self._matrices = list(self._matrices.values()), {}
        return taken

    def call(
        self, step: ClientStep, message: Tree = None, *, clients: Sequence[int] | None = None, sparse: bool = False
    ) -> Replies:
        """Send one message to each client (default: all), run `step` there and return the replies.

        Replies may be fewer: where the configuration says so, clients drop out of a round. What goes to all, sampled or
        not, reaches all.

        With `sparse` each tensor, in both directions, counts as its non-zero values and their positions in the ledger
        where that is less.
        """
        asked = self.clients if clients is None else tuple(clients)
        everyone = clients is None
        return self._deliver(step, asked, everyone, shared=_checked(message, step.__name__), sparse=sparse)

    def call_each(
        self, step: ClientStep, messages: Tree | Spread, *, clients: Sequence[int] | None = None, sparse: bool = False
    ) -> Replies:
        """Send each client its own message: `messages` is a tree whose leaves have a leading client axis.

        A leaf may also be a list with one tensor per client, where shapes differ. Of a `Spread` value each client gets
        its own row. `sparse` is as in `call`.
        """
        asked = self.clients if clients is None else tuple(clients)
        if not isinstance(messages, Spread):
            for path, leaf in leaves(messages):
                assert len(leaf) == len(asked), (
                    f"{step.__name__}: {path} has {len(leaf)} parts for {len(asked)} clients"
                )
        return self._deliver(step, asked, clients is None, each=messages, sparse=sparse)

    def call_others(self, step: ClientStep, rows: Spread, add: Add = added) -> Spread:
        """Send each client's row to every other client of `rows`, run `step` there for each, and add the replies up.

        Returns, for each client, the sum of what the others replied to its row, where the client lives. In the ledger K
        clients get K - 1 messages each and send as many replies; the server does not see the rows, nor the replies, in
        this process: they go straight from place to place, and each place adds up the replies of its own clients.
        `add` is a function of a module that returns the sum of a list of replies, or of such sums.
        """
        sums = {}
        for client, row in rows.each_row().items():
            others = tuple(other for other in rows.clients if other != client)
            assert others, f"{step.__name__}: there is no other client than {client}"
            sums[client] = self._deliver(step, others, False, shared=row).keep().total(row, add)
        return rows.with_rows(sums)

    def spread(self, tree: Tree) -> Spread:
        """Return `tree` as the row of every client, for the server to change; this sends nothing."""
        return self._runner.spread(_checked(tree, "spread"))

    def _numbered(self, step: str) -> partial[None]:
        """Return what enters the next call into the ledger."""
        number = self._num_calls
        self._num_calls += 1
        return partial(self.ledger.add, round=self.round, call=number, step=step, kind=self._kind)

    def _deliver(self, step: ClientStep, clients: tuple[int, ...], everyone: bool, **messages: Any) -> Replies:
        system = self.system if self._kind == "train" and not everyone else None
        if system is not None:
            asked, clients = clients, system.present(clients)
            if not isinstance(messages.get("each"), Spread | None):
                messages["each"] = pick(messages["each"], [asked.index(client) for client in clients])
        seed = seed_for(self.seed, step.__name__, self.round, self._num_calls)
        enter = self._numbered(step.__name__)
        call = Call(step=step.__name__, round=self.round, seed=seed, clients=clients, **messages)
        replies = self._runner.run(call)
        settle = partial(_settle, enter, np.array(clients, np.int64), replies.receipt())
        self._unsettled.append((self._kind, settle))
        if system is None:
            return replies
        known = replies.receipt()()
        return replies.only(system.in_time(clients, known.num_bytes_asked, known.num_bytes))


def _settle(enter: Callable[..., None], clients: Any, receipt: Callable[[], Receipt]) -> float:
    """Wait for the clients, enter what went down and came up, and return how long the step took."""
    known = receipt()
    enter(sender=SERVER, receiver=clients, num_bytes=known.num_bytes_asked)
    enter(sender=clients, receiver=SERVER, num_bytes=known.num_bytes)
    return known.seconds


def sample(num_clients: int, *, fraction: float, seed: int, round: int) -> tuple[int, ...]:
    """Return the participants of `round`, sorted: a function of its arguments alone."""
    count = max(1, round_half_up(fraction * num_clients))
    if count == num_clients:
        return tuple(range(num_clients))
    generator = torch.Generator().manual_seed(seed_for(seed, "sample", round))
    return tuple(sorted(torch.randperm(num_clients, generator=generator)[:count].tolist()))


def round_half_up(value: float) -> int:
    """Round to the nearest whole number, halves upwards (the built-in rounds them to even)."""
    return int(value + 0.5)


def _checked(message: Tree, step: str) -> Tree:
    for path, leaf in leaves(message):
        if not isinstance(leaf, Tensor):
            raise TypeError(f"{step}: {path} in a message is a {type(leaf).__name__}, but only tensors travel")
    return message
