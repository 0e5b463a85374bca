"""A step on its way to the clients, and what says that it failed there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraph_sim.engine.ledger import num_bytes, num_bytes_each
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.errors import RunError


@dataclass(frozen=True, kw_only=True)
class Call:
    """One step for some clients, on its way to them.

    `shared` is the same message for all, or what a place holds; `each` has a leading client axis (or lists) in the
    order of `clients`, or is the `Spread` value, then the `Rows` of a place, that holds them. The random stream of a
    client is a function of `seed` and the client's number alone. `sparse`: see `Federation.call`.
    """

    step: str
    round: int
    seed: int
    clients: tuple[int, ...]
    shared: Tree = None
    each: Tree = None
    sparse: bool = False

    def num_bytes(self) -> NDArray[np.int64]:
        """Return the size of each client's message, once it is here."""
        if self.each is None:
            return np.full(len(self.clients), num_bytes(self.shared, sparse=self.sparse), np.int64)
        return num_bytes_each(self.each, len(self.clients), sparse=self.sparse)

    def failure(self, who: str, reason: str, traceback: str = "") -> "StepFailure":
        """Say that this call failed at `who`."""
        return StepFailure(who=who, round=self.round, step=self.step, reason=reason, traceback=traceback)


@dataclass(frozen=True, kw_only=True)
class StepFailure:
    """A client step that gave no usable reply. It is a value, so that it survives every way of travelling."""

    who: str
    round: int
    step: str
    reason: str
    traceback: str = ""

    def error(self) -> RunError:
        """Return what ends the run."""
        return RunError(f"{self.who}, round {self.round}, step {self.step}: {self.reason}", self.traceback)
