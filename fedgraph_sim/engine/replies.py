"""What comes back from a call: promises, which wait when somebody looks at them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.client_axis import gather, one, pick, weighted_sum
from fedgraph_sim.engine.ledger import num_bytes_each
from fedgraph_sim.engine.spread import Held, HeldHere, Spread, apply
from fedgraph_sim.engine.tree import Tree, leaves, tree_map

Value = TypeVar("Value")
Promise = Callable[[], Value | StepFailure]
"""Waits for a value that may not have been there yet."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What is known of replies without looking at them.

    `num_bytes` [num_replies] is the size of each, `num_bytes_asked` that of the message it answers, `seconds` how long
    the step took in the slowest place, `kinds` a tree of empty tensors of the leaves' dtypes.
    """

    num_bytes: NDArray[np.int64]
    num_bytes_asked: NDArray[np.int64]
    seconds: float
    kinds: Tree


class Part(Protocol):
    """The replies of the clients of one place, each leaf with a leading client axis (or a list), wherever they are."""

    @property
    def receipt(self) -> Promise[Receipt]:
        """What to know without looking; the promise does not keep the replies themselves alive."""

    def tree(self, key: str | None = None) -> Tree | StepFailure:
        """Bring the replies here, or the part `key` of them."""

    def keep(self, key: str | None = None) -> Held:
        """Let the place hold the replies, or the part `key` of them."""

    def weighted_sum(self, key: str, weights: Tensor) -> Promise[Tree]:
        """Begin to compute sum_k weights_k leaf_k under `key` where the replies are."""


class Here:
    """Replies that are in this process. NaN and Inf are found where somebody looks: in a sum by the sum."""

    def __init__(self, tree: Tree, call: Call, seconds: float) -> None:
        self._tree = tree
        self._call = replace(call, shared=None, each=None)  # which nobody needs any more
        receipt = Receipt(
            num_bytes=num_bytes_each(tree, len(call.clients), sparse=call.sparse),
            num_bytes_asked=call.num_bytes(),
            seconds=seconds,
            kinds=tree_map(lambda leaf: (leaf if isinstance(leaf, Tensor) else leaf[0]).new_empty(0), tree),
        )
        self.receipt: Promise[Receipt] = lambda: receipt

    def tree(self, key: str | None = None) -> Tree | StepFailure:
        """Return the replies, or a part of them."""
        tree = self._tree if key is None else self._tree[key]
        return _diverged(tree, self._call) or tree

    def keep(self, key: str | None = None) -> HeldHere:
        """Hold the replies, or a part of them."""
        return HeldHere(self.tree(key))

    def weighted_sum(self, key: str, weights: Tensor) -> Promise[Tree]:
        """Compute the sum."""
        total = weighted_sum(self._tree[key], weights)
        finite = all(bool(torch.isfinite(leaf.sum())) for _, leaf in leaves(total))
        failure = None if finite else _diverged(self._tree, self._call)
        return lambda: failure or total


class SomeOf:
    """The replies at `rows` of a part of `count` replies."""

    def __init__(self, part: Part, rows: Sequence[int], count: int) -> None:
        self._part = part
        self._rows = list(rows)
        self._count = count
        whole = part.receipt
        self.receipt: Promise[Receipt] = lambda: apply(_rows_of_receipt, whole(), list(rows))

    def tree(self, key: str | None = None) -> Tree | StepFailure:
        """Bring the replies here, or a part of them."""
        return apply(pick, self._part.tree(key), self._rows)

    def keep(self, key: str | None = None) -> Held:
        """Let the place hold the replies, or a part of them."""
        return self._part.keep(key).compute(pick, self._rows)

    def weighted_sum(self, key: str, weights: Tensor) -> Promise[Tree]:
        """Add all replies up, with no weight for the others."""
        spread = weights.new_zeros(self._count)
        spread[self._rows] = weights
        return self._part.weighted_sum(key, spread)


def _rows_of_receipt(receipt: Receipt, rows: Sequence[int]) -> Receipt:
    return replace(receipt, num_bytes=receipt.num_bytes[rows], num_bytes_asked=receipt.num_bytes_asked[rows])


class Replies(Mapping[int, Tree]):
    """The replies of some clients, in the order in which they were asked.

    As a mapping it gives one client's reply: ``replies[client]["weights"]``. The server's reductions are few and large:
    `stack`, `mean`, and those of a `Spread` value, which `keep` makes. Replies that are large and in other processes
    stay there until somebody wants them.
    """

    def __init__(
        self, clients: tuple[int, ...], parts: Sequence[Part], positions: Sequence[Sequence[int]], *, apart: bool
    ) -> None:
        self.clients = clients
        self._parts = parts
        self._positions = positions
        self._apart = apart
        self._stacks: dict[str, Tree] = {}

    @classmethod
    def joined(cls, parts: "Sequence[Replies]") -> "Replies":
        """Return the replies of several calls, one after another."""
        ends = np.cumsum([len(part) for part in parts]).tolist()
        moved = [
            [end - len(part) + place for place in places]
            for part, end in zip(parts, ends, strict=True)
            for places in part._positions
        ]
        clients = tuple(client for part in parts for client in part.clients)
        return cls(clients, [own for part in parts for own in part._parts], moved, apart=parts[0]._apart)

    def of(self, clients: tuple[int, ...]) -> "Replies":
        """Return the same replies as those of other clients."""
        return Replies(clients, self._parts, self._positions, apart=self._apart)

    def only(self, clients: Sequence[int]) -> "Replies":
        """Return the replies of some of the clients, in the same order."""
        if len(clients) == len(self):
            return self
        kept = tuple(client for client in self.clients if client in clients)
        parts, positions = [], []
        for part, places in zip(self._parts, self._positions, strict=True):
            rows = [row for row, place in enumerate(places) if self.clients[place] in clients]
            if rows:
                parts.append(SomeOf(part, rows, len(places)))
                positions.append([kept.index(self.clients[places[row]]) for row in rows])
        return Replies(kept, parts, positions, apart=self._apart)

    def receipt(self) -> Callable[[], Receipt]:
        """Return what waits for the clients and then tells what is known of their replies, without keeping these."""
        pending, positions, count = [part.receipt for part in self._parts], self._positions, len(self)

        def wait() -> Receipt:
            receipts = [_good(receipt()) for receipt in pending]
            sizes, asked = np.zeros((2, count), np.int64)
            for receipt, places in zip(receipts, positions, strict=True):
                sizes[list(places)] = receipt.num_bytes
                asked[list(places)] = receipt.num_bytes_asked
            seconds = max(receipt.seconds for receipt in receipts)
            return Receipt(num_bytes=sizes, num_bytes_asked=asked, seconds=seconds, kinds=receipts[0].kinds)

        return wait

    @cached_property
    def tree(self) -> Tree:
        """All replies here, each leaf with a leading client axis [num_replies, ...]; a list where shapes differ."""
        return gather([_good(part.tree()) for part in self._parts], self._positions)

    def __getitem__(self, client: int) -> Tree:
        if client not in self.clients:
            raise KeyError(client)
        return one(self.tree, self.clients.index(client))

    def __iter__(self) -> Iterator[int]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)

    def stack(self, key: str) -> Tree:
        """Return the part `key` of all replies, each leaf with a leading client axis."""
        if key not in self._stacks:
            self._stacks[key] = gather([_good(part.tree(key)) for part in self._parts], self._positions)
        return self._stacks[key]

    def keep(self, key: str | None = None) -> Spread:
        """Return all replies, or the part `key` of them, where they are."""
        parts = [part.keep(key) for part in self._parts]
        return Spread(self.clients, parts, self._positions, apart=self._apart)

    def mean(self, key: str, *, by: Tensor) -> Tree:
        """Return sum_k by_k leaf_k / sum_k by_k for every leaf under `key`, whole-number buffers included (rounded).

        `by` is [num_replies], non-negative and not all zero. Each place adds up its own clients first if the replies
        may be reduced apart; else all are added up here, in one order for every packing.
        """
        total = by.double().sum()
        assert total > 0, "the weights of a mean must not all be zero"
        share = by.double() / total
        if self._apart:
            pending = [
                part.weighted_sum(key, share[list(positions)])
                for part, positions in zip(self._parts, self._positions, strict=True)
            ]
            sums = [_good(wait()) for wait in pending]
        else:
            sums = [weighted_sum(self.stack(key), share)]
        return tree_map(_of_kind, self.receipt()().kinds[key], *sums)


def _good(value: Value | StepFailure) -> Value:
    if isinstance(value, StepFailure):
        raise value.error()
    return value


def _of_kind(kind: Tensor, *sums: Tensor) -> Tensor:
    total = torch.stack(sums).sum(dim=0) if len(sums) > 1 else sums[0]
    return (total if kind.is_floating_point() else total.round()).to(kind.dtype)


def _diverged(replies: Tree, call: Call) -> StepFailure | None:
    """Find NaN or Inf. The sum of a leaf tells in one pass whether to look for the client."""
    for path, leaf in leaves(replies):
        parts: Any = leaf if isinstance(leaf, list) or not torch.isfinite(leaf.sum()) else ()
        for client, part in zip(call.clients, parts, strict=False):
            if part.is_floating_point() and not torch.isfinite(part).all():
                if sent := _not_finite(call):
                    return call.failure("the server", f"it had sent NaN or Inf in {sent}: see the algorithm's `round`")
                reason = f"training diverged: {path} of the reply holds NaN or Inf; lower algorithm.lr"
                return call.failure(f"client {client}", reason)
    return None


def _not_finite(call: Call) -> str:
    """Return the path of the first leaf of the call's messages, of those that are here, with NaN or Inf."""
    for message in (call.shared, call.each):
        for path, leaf in leaves(message) if isinstance(message, dict | Tensor) else ():
            parts = leaf if isinstance(leaf, list) else [leaf]
            if any(part.is_floating_point() and not torch.isfinite(part).all() for part in parts):
                return path
    return ""
