"""The ledger: what the parties would have sent to each other, to the byte."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from fedgraph_sim.engine.tree import Tree, leaves

SERVER = -1
"""The server's number in the columns `sender` and `receiver`."""


def num_bytes(tree: Tree) -> int:
    """Return the bytes of the tensors in one message."""
    return sum(leaf.numel() * leaf.element_size() for _, leaf in leaves(tree))


def num_bytes_each(tree: Tree, count: int) -> NDArray[np.int64]:
    """Return the bytes of each of `count` messages whose leaves are stacked on a leading axis, or lists."""
    total = np.zeros(count, np.int64)
    for _, leaf in leaves(tree):
        if isinstance(leaf, Tensor):
            total += leaf[0].numel() * leaf.element_size()
        else:
            total += np.array([part.numel() * part.element_size() for part in leaf], np.int64)
    return total


class Ledger:
    """One row per message between the server and a client.

    It counts the tensors that an algorithm sends, never what Ray moves: packing clients into actors changes nothing.
    Rows of kind ``eval`` are measurements that a real federation would not send, and stay out of the totals.
    """

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []
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
        count = len(num_bytes)
        columns = {
            "round": np.full(count, round, np.int32),
            "call": np.full(count, call, np.int32),
            "step": pa.array([step]).take(pa.array(np.zeros(count, np.int32))).dictionary_encode(),
            "kind": pa.array([kind]).take(pa.array(np.zeros(count, np.int32))).dictionary_encode(),
            "sender": np.broadcast_to(sender, count).astype(np.int32),
            "receiver": np.broadcast_to(receiver, count).astype(np.int32),
            "bytes": num_bytes,
        }
        self._rows.append(pa.RecordBatch.from_pydict(columns))
        key = (kind, "down" if isinstance(sender, int) else "up")
        self._totals[key] = self._totals.get(key, 0) + int(num_bytes.sum())

    def total(self, direction: str, *kinds: str) -> int:
        """Return the bytes sent ``"up"`` to the server or ``"down"`` to the clients by messages of these kinds."""
        return sum(self._totals.get((kind, direction), 0) for kind in kinds)

    def table(self) -> pa.Table:
        """Return all rows: round, call, step, kind, sender, receiver, bytes."""
        schema = pa.schema(
            [
                ("round", pa.int32()),
                ("call", pa.int32()),
                ("step", pa.dictionary(pa.int32(), pa.string())),
                ("kind", pa.dictionary(pa.int32(), pa.string())),
                ("sender", pa.int32()),
                ("receiver", pa.int32()),
                ("bytes", pa.int64()),
            ]
        )
        return pa.Table.from_batches(self._rows, schema).unify_dictionaries()
