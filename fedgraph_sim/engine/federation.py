"""The boundary between the parties: all that passes between server and clients passes through here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fedgraph_sim.engine.algorithm import ClientStep
from fedgraph_sim.engine.call import Call
from fedgraph_sim.engine.ledger import SERVER, Ledger, num_bytes, num_bytes_each
from fedgraph_sim.engine.replies import Receipt, Replies
from fedgraph_sim.engine.tree import Tree, leaves
from fedgraph_sim.seeds import seed_for


@dataclass(frozen=True, kw_only=True)
class Task:
    """What everybody knows before the start: the sizes that a model depends on."""

    num_features: int
    num_classes: int


class Runner(Protocol):
    """Whatever can run a step for clients."""

    def run(self, call: Call) -> Replies:
        """Begin to run the step for the call's clients, after whatever they were asked before."""


class Federation:
    """The server's view of its clients.

    Calls are promises: `call` returns at once, and who looks at the replies waits for them. What clients are asked they
    do in the order in which they were asked.
    """

    def __init__(
        self, runner: Runner, *, num_clients: int, task: Task, seed: int, fraction: float = 1.0, ledger: Ledger
    ) -> None:
        self.clients = tuple(range(num_clients))
        self.task = task
        self.seed = seed
        self.fraction = fraction
        self.ledger = ledger
        self._runner = runner
        self._unsettled: list[tuple[str, Callable[[], float]]] = []
        self.begin(round=0, kind="setup")

    def begin(self, *, round: int, kind: str) -> None:
        """Name what the next calls belong to; the coordinator does this, algorithms do not."""
        self.round = round
        self._kind = kind
        self._num_calls = 0

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

    def call(self, step: ClientStep, message: Tree = None, *, clients: Sequence[int] | None = None) -> Replies:
        """Send one message to each client (default: all), run `step` there and return the replies."""
        asked = self.clients if clients is None else tuple(clients)
        sizes = np.full(len(asked), num_bytes(_checked(message, step)), np.int64)
        return self._deliver(step, asked, sizes, shared=message)

    def call_each(self, step: ClientStep, messages: Tree, *, clients: Sequence[int] | None = None) -> Replies:
        """Send each client its own message: `messages` is a tree whose leaves have a leading client axis.

        A leaf may also be a list with one tensor per client, where shapes differ.
        """
        asked = self.clients if clients is None else tuple(clients)
        for path, leaf in leaves(messages):
            assert len(leaf) == len(asked), f"{step.__name__}: {path} has {len(leaf)} parts for {len(asked)} clients"
        return self._deliver(step, asked, num_bytes_each(messages, len(asked)), each=messages)

    def _deliver(self, step: ClientStep, clients: tuple[int, ...], sizes: Any, **messages: Tree) -> Replies:
        number = self._num_calls
        self._num_calls += 1
        seed = seed_for(self.seed, step.__name__, self.round, number)
        call = Call(step=step.__name__, round=self.round, seed=seed, clients=clients, **messages)
        replies = self._runner.run(call)
        enter = partial(self.ledger.add, round=self.round, call=number, step=step.__name__, kind=self._kind)
        settle = partial(_settle, enter, np.array(clients, np.int64), sizes, replies.receipt())
        self._unsettled.append((self._kind, settle))
        return replies


def _settle(enter: Callable[..., None], clients: Any, sizes: Any, receipt: Callable[[], Receipt]) -> float:
    """Wait for the clients, enter what went down and came up, and return how long the step took."""
    known = receipt()
    enter(sender=SERVER, receiver=clients, num_bytes=sizes)
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


def _checked(message: Tree, step: ClientStep) -> Tree:
    for path, leaf in leaves(message):
        if not isinstance(leaf, Tensor):
            raise TypeError(f"{step.__name__}: {path} in a message is a {type(leaf).__name__}, but only tensors travel")
    return message
