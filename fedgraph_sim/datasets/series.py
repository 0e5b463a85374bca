"""Time series of sensors that are linked: the whole of a data set, or one client's part of it."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

ROLES = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class SensorSeries:
    """One reading per sensor and time step, who is linked to whom, and which stretches of time are for what.

    Shapes: `values` [num_nodes, num_steps], 0 where nothing was read; `observed` the same, boolean; `time_of_day`
    [num_steps] in [0, 1); `adjacency` [num_nodes, num_nodes] of weights, row = target; `node_id` [num_nodes]: the
    sensor's number in the whole data set; `is_seen` [num_nodes]: whether the sensor takes part in training;
    `position` [num_nodes, 2], longitude and latitude, or None; `starts`: for each of `ROLES` the steps at which its
    windows begin, a window being `history` steps that are known and the `horizon` steps after them.
    """

    values: NDArray[np.float32]
    observed: NDArray[np.bool_]
    time_of_day: NDArray[np.float32]
    adjacency: sparse.csr_array
    names: tuple[str, ...]
    node_id: NDArray[np.int64]
    is_seen: NDArray[np.bool_]
    position: NDArray[np.float64] | None
    history: int
    horizon: int
    starts: dict[str, NDArray[np.int64]]

    @property
    def num_nodes(self) -> int:
        """Number of sensors."""
        return int(self.values.shape[0])

    @property
    def num_steps(self) -> int:
        """Number of time steps."""
        return int(self.values.shape[1])

    @property
    def num_windows(self) -> int:
        """Number of windows of history and horizon that the series has, one beginning at each step."""
        return max(self.num_steps - self.history - self.horizon + 1, 0)

    def part(self, nodes: NDArray[np.int64]) -> "SensorSeries":
        """Return the series of some sensors, with the links among them."""
        return SensorSeries(
            values=self.values[nodes],
            observed=self.observed[nodes],
            time_of_day=self.time_of_day,
            adjacency=self.adjacency[nodes][:, nodes].tocsr(),
            names=tuple(self.names[node] for node in nodes),
            node_id=self.node_id[nodes],
            is_seen=self.is_seen[nodes],
            position=None if self.position is None else self.position[nodes],
            history=self.history,
            horizon=self.horizon,
            starts=self.starts,
        )

    def checked(self) -> Self:
        """Return the series. Raises `ValueError` where its arrays do not fit together."""
        shape = self.values.shape
        fits = {
            "values": self.values.ndim == 2 and bool(np.isfinite(self.values).all()),
            "observed": self.observed.shape == shape,
            "time_of_day": self.time_of_day.shape == shape[1:],
            "adjacency": self.adjacency.shape == (shape[0], shape[0]),
            "node_id": self.node_id.shape == shape[:1],
            "is_seen": self.is_seen.shape == shape[:1],
            "starts": all(_within(self.starts.get(role), self.num_windows) for role in ROLES),
        }
        for name, fit in fits.items():
            if not fit:
                raise ValueError(f"{name} does not fit a series of {shape[0]} sensors")
        return self


def _within(starts: NDArray[Any] | None, end: int) -> bool:
    return starts is not None and (starts.size == 0 or bool(starts.min() >= 0 and starts.max() < end))
