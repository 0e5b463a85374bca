"""A client's time series as a client step sees them, alone or stacked for steps that run many clients together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.engine.replay import Programs


@dataclass(frozen=True, eq=False)
class Windows:
    """Some windows of n sensors.

    Shapes: `values` [n, B, history + horizon], 0 where nothing was read; `observed` the same, boolean; `time_of_day`
    [B, history + horizon].
    """

    values: Tensor
    observed: Tensor
    time_of_day: Tensor


@dataclass(frozen=True, eq=False)
class SeriesTensors:
    """Tensors of n sensors' series of T steps.

    Shapes: `values` [n, T], 0 where nothing was read; `observed` [n, T], boolean; `time_of_day` [T]; `is_seen` [n],
    whether the sensor takes part in training; `train`, `val` and `test` [number of windows]: the steps at which the
    windows begin, the same for all sensors. `adjacency` [n, n] holds the weights of the links among them, row = target.
    """

    values: Tensor
    observed: Tensor
    time_of_day: Tensor
    is_seen: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    history: int
    horizon: int
    adjacency: sparse.csr_array

    @property
    def num_nodes(self) -> int:
        """Number of sensors n."""
        return self.values.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.values.device

    @property
    def num_train_steps(self) -> int:
        """Number of the steps, from the first one, that training windows know."""
        return int(self.train.max()) + self.history

    def windows(self, starts: Tensor) -> Windows:
        """Return the windows of all sensors that begin at the steps `starts` [B]."""
        length = self.history + self.horizon
        return Windows(
            values=self.values.unfold(-1, length, 1)[:, starts],
            observed=self.observed.unfold(-1, length, 1)[:, starts],
            time_of_day=self.time_of_day.unfold(-1, length, 1)[starts],
        )

    @classmethod
    def of(cls, series: SensorSeries, device: torch.device, link_split: LinkSplit | None = None) -> "SeriesTensors":
        """Move the arrays of `series` to `device`; there are no links to predict."""
        assert link_split is None, "links are predicted in graphs only"
        starts = {role: torch.from_numpy(steps).to(device) for role, steps in series.starts.items()}
        return cls(
            values=torch.from_numpy(series.values).to(device),
            observed=torch.from_numpy(series.observed).to(device),
            time_of_day=torch.from_numpy(series.time_of_day).to(device),
            is_seen=torch.from_numpy(series.is_seen).to(device),
            history=series.history,
            horizon=series.horizon,
            adjacency=series.adjacency,
            **starts,
        )

    @classmethod
    def stack(cls, parts: Sequence["SeriesTensors"]) -> "SeriesBatch":
        """Put the series of several clients of equally many sensors together."""
        return SeriesBatch(
            first=parts[0],
            values=torch.stack([part.values for part in parts]),
            observed=torch.stack([part.observed for part in parts]),
            is_seen=torch.stack([part.is_seen for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class SeriesBatch:
    """Stacked tensors of K clients; what is the same for all is kept once, in `first`."""

    first: SeriesTensors
    values: Tensor
    observed: Tensor
    is_seen: Tensor
    programs: Programs = field(default_factory=Programs)

    def tensors(self) -> dict[str, Any]:
        """Return what ``torch.vmap`` maps over to get at one client's series."""
        return {"values": self.values, "observed": self.observed, "is_seen": self.is_seen}

    def one(self, own: dict[str, Any]) -> SeriesTensors:
        """Return one client's series inside ``torch.vmap``, `own` being its part of `tensors`.

        Its links are not among them: who needs the links of several sensors holds all of them, and is one client.
        """
        return replace(self.first, **own)
