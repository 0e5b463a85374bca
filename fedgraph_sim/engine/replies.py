"""What came back from a call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraph_sim.engine.client_axis import gather, one, weighted_sum
from fedgraph_sim.engine.ledger import num_bytes_each
from fedgraph_sim.engine.tree import Tree, tree_map


class Part(Protocol):
    """The replies of the clients of one place, each leaf with a leading client axis (or a list), wherever they are."""

    @property
    def num_bytes(self) -> NDArray[np.int64]:
        """The size of each client's reply."""

    @property
    def kinds(self) -> Tree:
        """Empty tensors of the leaves' dtypes and, behind the client axis, shapes."""

    @property
    def seconds(self) -> float:
        """How long the step took there."""

    def tree(self) -> Tree:
        """Bring the replies here."""

    def weighted_sum(self, key: str, weights: Tensor) -> Callable[[], Tree]:
        """Begin to compute sum_k weights_k leaf_k under `key` where the replies are; the result waits for it."""


class Here:
    """Replies that are in this process."""

    def __init__(self, tree: Tree, count: int, seconds: float, *, sparse: bool = False) -> None:
        self._tree = tree
        self.seconds = seconds
        self.num_bytes = num_bytes_each(tree, count, sparse=sparse)
        self.kinds = tree_map(lambda leaf: leaf[:0], tree)

    def tree(self) -> Tree:
        """Return the replies."""
        return self._tree

    def weighted_sum(self, key: str, weights: Tensor) -> Callable[[], Tree]:
        """Compute the sum."""
        total = weighted_sum(self._tree[key], weights)
        return lambda: total


class Replies(Mapping[int, Tree]):
    """The replies of some clients, in the order in which they were asked.

    As a mapping it gives one client's reply: ``replies[client]["weights"]``. The server's reductions are few and large:
    `stack` and `mean`. Where the replies are large and in other processes they stay there until somebody wants them.
    """

    def __init__(
        self, clients: tuple[int, ...], parts: Sequence[Part], positions: Sequence[Sequence[int]], *, apart: bool
    ) -> None:
        self.clients = clients
        self._parts = parts
        self._positions = positions
        self._apart = apart

    @property
    def num_bytes(self) -> NDArray[np.int64]:
        """The size of each client's reply."""
        sizes = np.zeros(len(self), np.int64)
        for part, positions in zip(self._parts, self._positions, strict=True):
            sizes[list(positions)] = part.num_bytes
        return sizes

    @property
    def seconds(self) -> float:
        """How long the step took in the slowest place."""
        return max(part.seconds for part in self._parts)

    @cached_property
    def tree(self) -> Tree:
        """All replies here, each leaf with a leading client axis [num_replies, ...]; a list where shapes differ."""
        return gather([part.tree() for part in self._parts], self._positions)

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
        return self.tree[key]

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
            sums = [wait() for wait in pending]
        else:
            sums = [weighted_sum(self.tree[key], share)]
        return tree_map(_of_kind, self._parts[0].kinds[key], *sums)


def _of_kind(kind: Tensor, *sums: Tensor) -> Tensor:
    total = torch.stack(sums).sum(dim=0) if len(sums) > 1 else sums[0]
    return (total if kind.is_floating_point() else total.round()).to(kind.dtype)
