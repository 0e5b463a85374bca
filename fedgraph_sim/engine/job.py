"""A job: all that a coordinator needs to run, as plain values that travel to its process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgraph_sim.datasets.storage import Store
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.placement import Placement


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run, partitioned and placed. Paths are absolute.

    `started` is the epoch second at which the user's command began, `seconds_partition` the time that loading and
    partitioning took; `inline` means that the placement's actors are plain hosts in the coordinator's process;
    `resume` is the checkpoint to go on from.
    """

    config: RunConfig
    store: Path
    folder: Path
    placement: Placement
    started: float
    seconds_partition: float
    inline: bool
    resume: Path | None = None

    def open_store(self) -> Store[Any]:
        """Return the store of the clients' data."""
        return self.config.dataset.kind.store(self.store)

    @property
    def num_threads(self) -> int:
        """Torch threads of a host: a matter of the client, so that results do not depend on the packing."""
        wanted = self.config.engine.cpus_per_client
        return 1 if isinstance(wanted, str) else max(1, int(wanted))
