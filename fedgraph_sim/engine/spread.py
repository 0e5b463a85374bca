"""Spread values: one row for each client, kept where the client lives, so that large rows do not pass the server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedgraph_sim.engine.call import StepFailure
from fedgraph_sim.engine.client_axis import gather, one, pick, put, weighted_sum
from fedgraph_sim.engine.tree import Tree, leaves, tree_map

Add = Callable[[Sequence[Tree]], Tree]
"""A function of a module that adds up trees; sums of sums are sums."""


class Held(Protocol):
    """A tree that one place holds; nobody waits for it until it is brought here."""

    def offer(self) -> None:
        """Begin to put the tree where other places find it: before anything that waits for what they offer."""

    def compute(self, function: Callable[..., Tree], *arguments: Any) -> "Held":
        """Let the place hold ``function(tree, *arguments)``, a function of a module.

        Arguments are plain values, trees, or what this or another place holds.
        """

    def tree(self) -> Tree | StepFailure:
        """Bring the tree here."""


class HeldHere:
    """A tree in this process."""

    def __init__(self, value: Tree | StepFailure) -> None:
        self._value = value

    def offer(self) -> None:
        """Do nothing: everybody is here."""

    def compute(self, function: Callable[..., Tree], *arguments: Any) -> "HeldHere":
        """Compute at once."""
        return HeldHere(apply(function, self._value, *map(_value, arguments)))

    def tree(self) -> Tree | StepFailure:
        """Return the tree."""
        return self._value


def _value(argument: Any) -> Any:
    return argument.tree() if isinstance(argument, HeldHere) else argument


def apply(function: Callable[..., Tree], *values: Any) -> Tree | StepFailure:
    """Return ``function(*values)``, or the first value that is a failure: what nobody could compute stays so."""
    failures = [value for value in values if isinstance(value, StepFailure)]
    return failures[0] if failures else function(*values)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some clients' rows, `positions`, of what their place holds."""

    held: Held
    positions: Sequence[int]


class Spread:
    """A tree whose leaves have a leading client axis, in the order of `clients`, in the places where these live.

    ``parts[i]`` holds the rows of the clients at ``positions[i]``. Where results are to be equal to the bit for every
    packing, not `apart`, sums run over all clients in one order.
    """

    def __init__(
        self, clients: Sequence[int], parts: Sequence[Held], positions: Sequence[Sequence[int]], *, apart: bool
    ) -> None:
        self.clients = tuple(clients)
        self._parts = parts
        self._positions = positions
        self._apart = apart
        self._at: Mapping[int, tuple[int, int]] = {
            self.clients[position]: (part, row)
            for part, places in enumerate(positions)
            for row, position in enumerate(places)
        }

    def tree(self, clients: Sequence[int] | None = None) -> Tree:
        """Bring the rows of some clients (default: all) here, in their order."""
        whole = gather([_good(part.tree()) for part in self._parts], self._positions)
        return whole if clients is None else pick(whole, [self.clients.index(client) for client in clients])

    def rows(self, clients: Sequence[int]) -> Rows:
        """Return where the rows of some clients are, who all live in one place."""
        found = [self._at[client] for client in clients]
        (part,) = {part for part, _ in found}
        return Rows(held=self._parts[part], positions=[row for _, row in found])

    def row(self, client: int) -> Held:
        """Return one client's row alone, in its place."""
        rows = self.rows([client])
        return rows.held.compute(one, rows.positions[0])

    def each_row(self) -> dict[int, Held]:
        """Return every client's row alone, in its place, for all other places to find."""
        rows = {client: self.row(client) for client in self.clients}
        for row in rows.values() if len(self._parts) > 1 else ():
            row.offer()
        return rows

    def total(self, at: Held, add: Add) -> Held:
        """Let the place that holds `at` hold ``add(rows)``; each place adds up its own rows first, if it may."""
        if self._apart:
            return at.compute(added_parts, add, *(part.compute(added_rows, add) for part in self._parts))
        return at.compute(added_in_order, add, self._positions, *self._parts)

    def with_rows(self, rows: Mapping[int, Held]) -> "Spread":
        """Return a spread value of other rows, one for each client, that are in the clients' places already."""
        parts = [
            part.compute(listed, *(rows[self.clients[position]] for position in places))
            for part, places in zip(self._parts, self._positions, strict=True)
        ]
        return self._with(parts)

    def mix(self, matrix: Tensor) -> "Spread":
        """Return rows_i = sum_j matrix_ij row_j for every leaf, `matrix` [num_clients, num_clients].

        Each place computes the rows of its own clients, and fetches those of others straight from their places.
        """
        for part in self._parts if len(self._parts) > 1 else ():
            part.offer()
        parts = [
            part.compute(mixed_apart, matrix[list(own)], self._positions, *self._parts)
            if self._apart
            else part.compute(mixed, matrix, own, self._positions, *self._parts)
            for part, own in zip(self._parts, self._positions, strict=True)
        ]
        return self._with(parts)

    def map(self, function: Callable[[Tree, Tree], Tree], other: "Spread") -> "Spread":
        """Return ``function(rows, rows of other)`` of every place, `other` having the same clients."""
        parts = [part.compute(function, theirs) for part, theirs in zip(self._parts, other._parts, strict=True)]
        return self._with(parts)

    def put(self, other: "Spread") -> "Spread":
        """Return this with the rows of the clients of `other` replaced by those."""
        parts = list(self._parts)
        for theirs, positions in zip(other._parts, other._positions, strict=True):
            rows = self.rows([other.clients[position] for position in positions])
            at = next(at for at, part in enumerate(self._parts) if part is rows.held)
            parts[at] = rows.held.compute(put, rows.positions, theirs)
        return self._with(parts)

    def _with(self, parts: Sequence[Held]) -> "Spread":
        return Spread(self.clients, parts, self._positions, apart=self._apart)


def mixed(_: Tree, matrix: Tensor, own: Sequence[int], positions: Sequence[Sequence[int]], *parts: Tree) -> Tree:
    """Return the rows `own` of the sums of all clients.

    All rows are put in order and all sums computed, whoever wants them: the last bit may depend on a product's shape.
    """
    return pick(weighted_sum(gather(parts, positions), matrix), own)


def mixed_apart(_: Tree, matrix: Tensor, positions: Sequence[Sequence[int]], *parts: Tree) -> Tree:
    """Return sum_j matrix_ij row_j, `matrix` [n, num_clients], adding the places' products up as they come."""
    columns = [matrix[:, list(places)] for places in positions]

    def total(*leaves: Tensor) -> Tensor:
        flat = [leaf.reshape(len(leaf), -1) for leaf in leaves]
        result = columns[0].to(flat[0]) @ flat[0]
        for column, leaf in zip(columns[1:], flat[1:], strict=True):
            result.addmm_(column.to(leaf), leaf)
        return result.reshape(len(matrix), *leaves[0].shape[1:])

    return tree_map(total, *parts)


def added(trees: Sequence[Tree]) -> Tree:
    """Return the sum of trees."""
    return tree_map(lambda *leaves: torch.stack(leaves).sum(dim=0) if len(leaves) > 1 else leaves[0], *trees)


def added_rows(tree: Tree, add: Add) -> Tree:
    """Return the sum of all rows."""
    count = len(next(leaf for _, leaf in leaves(tree)))
    return add([one(tree, row) for row in range(count)])


def added_in_order(_: Tree, add: Add, positions: Sequence[Sequence[int]], *parts: Tree) -> Tree:
    """Return the sum of all rows after they have been put in order."""
    return added_rows(gather(parts, positions), add)


def added_parts(_: Tree, add: Add, *trees: Tree) -> Tree:
    """Return the sum of what places have added up."""
    return add(trees)


def listed(_: Tree, *trees: Tree) -> Tree:
    """Return trees as rows, without a copy."""
    return tree_map(lambda *leaves: list(leaves), *trees)


def expanded(tree: Tree, count: int) -> Tree:
    """Return `count` rows of the same."""
    return tree_map(lambda leaf: leaf.expand(count, *leaf.shape).contiguous(), tree)


def brought(tree: Tree) -> Tree:
    """Return the tree with every spread value in it brought here."""
    return tree_map(lambda leaf: leaf.tree() if isinstance(leaf, Spread) else leaf, tree)


def _good(value: Tree | StepFailure) -> Tree:
    if isinstance(value, StepFailure):
        raise value.error()
    return value
