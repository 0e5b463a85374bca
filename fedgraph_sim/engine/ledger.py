"""The ledger: what the parties would have sent to each other, to the byte."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraph_sim.engine.tree import Tree

SERVER = -1
"""The server's number in the columns `sender` and `receiver`."""


POSITION = 4
"""Bytes of the position, an int32, that goes with each non-zero value of a tensor that is sent sparse."""


STANDS_FOR = "stands for"
"""The key beside which the other leaves of a tree count as so many bytes."""


def standing_for(tree: Tree, num_bytes: int, *, count: int | None = None) -> Tree:
    """Return a part of a message that counts as `num_bytes`, whatever its own tensors take.

    For what the parties would send in another form than the one that is computed with here, such as a matrix of which
    only the factors are needed. With `count` the tensors, and so this number, have a leading client axis.
    """
    return {**tree, STANDS_FOR: torch.full(() if count is None else (count,), num_bytes)}


def num_bytes(tree: Tree, *, sparse: bool = False) -> int:
    """Return the bytes of the tensors in one message.

    A tensor that may be sent `sparse` goes as its non-zero values and their positions where that takes fewer bytes.
    """
    if isinstance(tree, dict):
        if STANDS_FOR in tree:
            return int(tree[STANDS_FOR])
        return sum(num_bytes(part, sparse=sparse) for part in tree.values())
    return 0 if tree is None else _num_bytes(tree, sparse=sparse)


def num_bytes_each(tree: Tree, count: int, *, sparse: bool = False) -> NDArray[np.int64]:
    """Return the bytes of each of `count` messages whose leaves are stacked on a leading axis, or lists."""
    total = np.zeros(count, np.int64)
    if isinstance(tree, dict):
        if STANDS_FOR in tree:
            return total + np.array([int(each) for each in tree[STANDS_FOR]], np.int64)
        return sum((num_bytes_each(part, count, sparse=sparse) for part in tree.values()), total)
    if isinstance(tree, Tensor) and not sparse:
        return total + _num_bytes(tree[0], sparse=False)
    return total if tree is None else total + np.array([_num_bytes(part, sparse=sparse) for part in tree], np.int64)


def _num_bytes(tensor: Tensor, *, sparse: bool) -> int:
    dense = tensor.numel() * tensor.element_size()
    if not sparse:
        return dense
    return min(dense, int(tensor.count_nonzero()) * (tensor.element_size() + POSITION))


class Ledger:
    """One row per message between the server and a client.

    It counts the tensors that an algorithm sends, never what Ray moves: packing clients into actors changes nothing.
    Rows of kind ``eval`` are measurements that a real federation would not send, and stay out of the totals.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._totals: dict[tuple[str, str], int] = {}

    def add(
        self,
        *,
        round: int,
        call: int,
        step: str,
        kind: str,
        sender: NDArray[np.int64] | int,
        receiver: NDArray[np.int64] | int,
        num_bytes: NDArray[np.int64],
    ) -> None:
        """Add one row per entry of `num_bytes`; one of `sender` and `receiver` is the server."""
        self._entries.append(_Entry(round, call, step, kind, sender, receiver, num_bytes))
        key = (kind, "down" if isinstance(sender, int) else "up")
        self._totals[key] = self._totals.get(key, 0) + int(num_bytes.sum())

    def total(self, direction: str, *kinds: str) -> int:
        """Return the bytes sent ``"up"`` to the server or ``"down"`` to the clients by messages of these kinds."""
        return sum(self._totals.get((kind, direction), 0) for kind in kinds)

    def restore(self, rows: Iterable[pa.Table]) -> None:
        """Take the totals of a ledger's `rows`, which were taken from it before, for whatever is here."""
        self._entries.clear()
        self._totals.clear()
        for table in rows:
            direction = pc.if_else(pc.equal(table["sender"], SERVER), "down", "up")
            sums = (
                table.append_column("direction", direction)
                .group_by(["kind", "direction"])
                .aggregate([("bytes", "sum")])
            )
            for row in sums.to_pylist():
                key = row["kind"], row["direction"]
                self._totals[key] = self._totals.get(key, 0) + row["bytes_sum"]

    def take(self) -> pa.Table:
        """Return the rows since they were taken last, which are no longer kept here; the totals are."""
        table = self.table()
        self._entries.clear()
        return table

    def table(self) -> pa.Table:
        """Return the rows that are here: round, call, step, kind, sender, receiver, bytes."""
        counts = [len(entry.num_bytes) for entry in self._entries]

        def spread(name: str) -> NDArray[np.int32]:
            values = [
                np.broadcast_to(getattr(entry, name), count) for entry, count in zip(self._entries, counts, strict=True)
            ]
            return np.concatenate([np.zeros(0, np.int32), *values]).astype(np.int32)

        def named(name: str) -> pa.Array:
            names = pa.array([getattr(entry, name) for entry in self._entries], pa.string()).dictionary_encode()
            return names.take(pa.array(np.repeat(np.arange(len(counts)), counts)))

        sizes = np.concatenate([np.zeros(0, np.int64), *(entry.num_bytes for entry in self._entries)])
        return pa.table(
            {
                "round": spread("round"),
                "call": spread("call"),
                "step": named("step"),
                "kind": named("kind"),
                "sender": spread("sender"),
                "receiver": spread("receiver"),
                "bytes": sizes,
            }
        )


class _Entry(NamedTuple):
    """The messages of one call in one direction."""

    round: int
    call: int
    step: str
    kind: str
    sender: NDArray[np.int64] | int
    receiver: NDArray[np.int64] | int
    num_bytes: NDArray[np.int64]
