"""The states of a group of clients: stacked on a client axis while they can be, one by one where a step wants that."""

from collections.abc import Sequence

from fedgraph_sim.engine.client_axis import one, pick, stack
from fedgraph_sim.engine.tree import Tree


class States:
    """One state per client of a group, addressed by the client's position in it.

    A leaf whose length differs from client to client, such as one row per node, is filled up with zeros (False) when
    states are stacked, and stays so: a step takes of it what it needs, say ``leaf[: graph.num_nodes]``.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._each: list[Tree] | None = [{} for _ in range(count)]
        self._stacked: Tree = None

    def one(self, position: int) -> Tree:
        """Return one client's state."""
        return self._apart()[position]

    def set_one(self, position: int, state: Tree) -> None:
        """Replace one client's state."""
        self._apart()[position] = state

    def some(self, positions: Sequence[int]) -> Tree:
        """Return the states of some clients, stacked."""
        if len(positions) == self._count:
            return self._together()
        if self._each is None:
            return pick(self._stacked, positions)
        return stack([self._each[position] for position in positions], fill=True)

    def set_some(self, positions: Sequence[int], states: Tree) -> None:
        """Replace the states of some clients by stacked ones."""
        if len(positions) == self._count:
            self._stacked, self._each = states, None
            return
        for at, position in enumerate(positions):
            self.set_one(position, one(states, at))

    def _apart(self) -> list[Tree]:
        if self._each is None:
            stacked = self._stacked
            self._each = [one(stacked, position) for position in range(self._count)]
            self._stacked = None
        return self._each

    def _together(self) -> Tree:
        if self._each is not None:
            self._stacked, self._each = stack(self._each, fill=True), None
        return self._stacked
