"""All clients, wherever they live."""

from typing import Protocol

from fedgraph_sim.engine.federation import Call, StepFailure
from fedgraph_sim.engine.host import ClientHost
from fedgraph_sim.engine.tree import Tree


class Cohort(Protocol):
    """What the coordinator needs of the clients' processes."""

    def run(self, call: Call) -> Tree | StepFailure:
        """Run the step for the call's clients; return the replies, each leaf with a leading client axis."""

    def states(self) -> dict[int, Tree]:
        """Return every client's state."""

    def peak_memory(self) -> tuple[int, ...]:
        """Return the largest resident size so far of each process that holds clients, in bytes."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of each process that holds clients."""


class InlineCohort:
    """All clients in this process: for debugging, and with results equal to those of actors."""

    def __init__(self, host: ClientHost) -> None:
        self._host = host
        self.devices = (host.device,)

    def run(self, call: Call) -> Tree | StepFailure:
        """Run the step here."""
        return self._host.run(call)

    def states(self) -> dict[int, Tree]:
        """Return every client's state."""
        return self._host.states()

    def peak_memory(self) -> tuple[int, ...]:
        """Return this process's own, which holds everything."""
        return (self._host.peak_memory(),)
