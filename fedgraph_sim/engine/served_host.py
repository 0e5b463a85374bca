"""A host as another process sees it: trees come and go as arrays, and what only places need stays, under numbers."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray

from fedgraph_sim.engine.arrays import to_arrays, to_tensors
from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.cohort import with_rows
from fedgraph_sim.engine.host import ClientHost, HostInfo
from fedgraph_sim.engine.ledger import num_bytes_each
from fedgraph_sim.engine.memory import peak_memory
from fedgraph_sim.engine.replies import Here, Receipt
from fedgraph_sim.engine.spread import apply, expanded
from fedgraph_sim.engine.tree import Tree

LARGE = 1 << 20
"""Bytes from which a part of the replies stays here until somebody asks for it."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What goes to the server after a step: a `Receipt` with arrays, and the replies, or those parts that are small."""

    receipt: Receipt
    tree: Tree
    complete: bool


@dataclass(frozen=True)
class Own:
    """What the host itself holds under a number."""

    number: int


@dataclass(frozen=True)
class OwnRows:
    """Some rows, `positions`, of what the host itself holds under a number."""

    number: int
    positions: Sequence[int]


@dataclass(frozen=True)
class Shown:
    """What a host holds, as arrays, or the failure because of which it holds nothing."""

    value: Tree | StepFailure

    def tree(self) -> Tree | StepFailure:
        """Return it with tensors."""
        return self.value if isinstance(self.value, StepFailure) else to_tensors(self.value)


class ServedHost:
    """Runs steps, and holds replies and spread values until they are released."""

    def __init__(self, host: ClientHost) -> None:
        self._host = host
        self._replies: dict[int, Here | StepFailure] = {}
        self._held: dict[int, Tree | StepFailure] = {}
        self._round = 0

    def run(self, number: int, call: Call, shared: Any, released: Sequence[int]) -> Answer | StepFailure:
        """Run the step of `call` with its messages, arrays, and hold the replies.

        `shared` is the message to all, or stands for what this or another host holds.
        """
        for old in released:
            self._replies.pop(old, None)
            self._held.pop(old, None)
        self._round = call.round
        whole = self._with_messages(call, shared)
        begin = time.perf_counter()
        tree = whole if isinstance(whole, StepFailure) else self._host.run(whole)
        if isinstance(tree, StepFailure):
            self._replies[number] = tree
            return tree
        assert isinstance(whole, Call)
        self._replies[number] = here = Here(tree, whole, time.perf_counter() - begin)
        return self._answer(here, tree)

    def _with_messages(self, call: Call, shared: Any) -> Call | StepFailure:
        message = self._value(shared) if isinstance(shared, Own | Shown) else to_tensors(shared)
        if isinstance(message, StepFailure):
            return message
        call = replace(call, shared=message)
        if not isinstance(call.each, OwnRows):
            return replace(call, each=to_tensors(call.each))
        return with_rows(call, self._held[call.each.number], call.each.positions)

    def _answer(self, here: Here, tree: Tree) -> Answer | StepFailure:
        receipt = here.receipt()
        assert not isinstance(receipt, StepFailure)
        small, count = tree, len(receipt.num_bytes)
        if isinstance(tree, dict):
            small = {key: part for key, part in tree.items() if num_bytes_each(part, count).sum() < LARGE}
        return Answer(
            receipt=replace(receipt, kinds=to_arrays(receipt.kinds)),
            tree=to_arrays(small),
            complete=not isinstance(tree, dict) or len(small) == len(tree),
        )

    def tree(self, number: int, key: str | None) -> Shown:
        """Return the replies under `number`, or a part of them."""
        return _shown(_of(self._replies[number], lambda here: here.tree(key)))

    def weighted_sum(self, number: int, key: str, weights: NDArray[Any]) -> Shown:
        """Return the weighted sum, over the clients here, of a part of the replies under `number`."""
        share = torch.from_numpy(weights)
        return _shown(_of(self._replies[number], lambda here: here.weighted_sum(key, share)()))

    def keep(self, number: int, key: str | None, replies: int) -> None:
        """Hold replies, or a part of them, under `number` of their own."""
        self._attempt(number, "keep", lambda: _of(self._replies[replies], lambda here: here.tree(key)))

    def expand(self, number: int, tree: Tree, count: int) -> None:
        """Hold `count` rows of `tree`, arrays."""
        self._attempt(number, "spread", lambda: expanded(to_tensors(tree), count))

    def compute(self, number: int, function: Callable[..., Tree], *arguments: Any) -> None:
        """Hold ``function(*arguments)``, with what the arguments stand for in their places."""
        name = getattr(function, "__name__", "compute")
        self._attempt(number, name, lambda: apply(function, *map(self._value, arguments)))

    def _attempt(self, number: int, what: str, make: Callable[[], Tree | StepFailure]) -> None:
        """Hold what `make` returns, or why it returns nothing: nobody waits for this, but somebody for the result."""
        try:
            self._held[number] = make()
        except Exception as error:
            self._held[number] = StepFailure(
                who="the rows of the clients",
                round=self._round,
                step=what,
                reason=f"{type(error).__name__}: {error}",
                traceback=traceback.format_exc(),
            )

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, Own):
            return self._held[argument.number]
        return argument.tree() if isinstance(argument, Shown) else argument

    def show(self, number: int) -> Shown:
        """Return what is held under `number`."""
        return _shown(self._held[number])

    def publish(self, tree: Tree) -> None:
        """Let all clients here see `tree`, of arrays, from now on."""
        self._host.publish(to_tensors(tree))

    def hold(self, number: int, rows: Tree) -> None:
        """Hold `rows`, arrays."""
        self._held[number] = to_tensors(rows)

    def restore(self, states: Mapping[int, Tree]) -> None:
        """Give all clients here other states, of arrays."""
        self._host.restore({client: to_tensors(state) for client, state in states.items()})

    def states(self) -> dict[int, Tree]:
        """Return the states of the clients, as arrays."""
        states: dict[int, Tree] = to_arrays(self._host.states())
        return states

    def describe(self) -> HostInfo:
        """Return what the run reports of this host."""
        return self._host.describe()

    def peak_memory(self) -> int:
        """Return the largest resident size of this process so far, in bytes."""
        return peak_memory()


def _of(here: Here | StepFailure, function: Callable[[Here], Tree | StepFailure]) -> Tree | StepFailure:
    return here if isinstance(here, StepFailure) else function(here)


def _shown(value: Tree | StepFailure) -> Shown:
    return Shown(value if isinstance(value, StepFailure) else to_arrays(value))
