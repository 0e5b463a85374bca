"""What every data set of sensors' time series has in common: the stretch of time, the windows, and the links."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from fedgraph_sim.datasets.dataset import Dataset
from fedgraph_sim.datasets.kind import Kind
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.series_split import ChronologicalSplit
from fedgraph_sim.datasets.series_store import SeriesStore
from fedgraph_sim.errors import ConfigError

SERIES = Kind(
    noun="time series",
    split=ChronologicalSplit,
    store=SeriesStore,
    partition="sensor",
    clients=0,
    protocols=("local-weighted", "local-mean"),
)
"""Time series of sensors, each of them a client."""

MINUTES_PER_DAY = 24 * 60


class SeriesDataset(Dataset):
    """A named source of sensors' time series."""

    kind: ClassVar[Kind] = SERIES

    history: int = Field(12, ge=1, le=10_000, description="steps that are known", json_schema_extra={"unit": "steps"})
    horizon: int = Field(
        12, ge=1, le=10_000, description="steps that are predicted", json_schema_extra={"unit": "steps"}
    )
    first_step: int = Field(0, ge=0, description="first time step used", json_schema_extra={"unit": "steps"})
    num_steps: int = Field(
        0, ge=0, description="time steps used from there; 0: all", json_schema_extra={"unit": "steps"}
    )

    def read(self, data_dir: Path | None, cache_dir: Path) -> SensorSeries:
        """Return the raw series of all time steps, without windows."""
        raise NotImplementedError

    def load(self, data_dir: Path | None, cache_dir: Path) -> SensorSeries:
        """Return the stretch of the series that is used, without windows."""
        series = self.read(data_dir, cache_dir)
        steps = slice(self.first_step, self.first_step + self.num_steps if self.num_steps else None)
        series = replace(
            series,
            values=series.values[:, steps],
            observed=series.observed[:, steps],
            time_of_day=series.time_of_day[steps],
        )
        if not series.num_windows:
            raise ConfigError(
                f"dataset.first_step={self.first_step} and dataset.num_steps={self.num_steps} leave "
                f"{series.num_steps} steps, but a window takes {self.history} + {self.horizon}; use more steps"
            )
        return series

    def series(
        self,
        values: NDArray[np.floating],
        adjacency: sparse.sparray,
        names: tuple[str, ...],
        time_of_day: NDArray[np.floating],
        *,
        zero_is_missing: bool,
        position: NDArray[np.float64] | None = None,
        file: Path | None = None,
    ) -> SensorSeries:
        """Return the series of `values` [num_nodes, num_steps]: what is no number, or zero if so said, is missing.

        Raises `ConfigError` where float32 cannot hold a value; `file` is where the values are from.
        """
        observed = ~np.isnan(values)
        if zero_is_missing:
            observed &= values != 0
        with np.errstate(over="ignore"):
            stored = np.where(observed, values, 0).astype(np.float32)
        if not np.isfinite(stored).all():
            sensor, step = np.argwhere(~np.isfinite(stored))[0]
            raise ConfigError(
                f"{file or f'dataset {self.name}'}: the reading of sensor {names[sensor]} in row {step + 1} is"
                f" {values[sensor, step]:g}; replace it by a finite number up to 3.4e38, or leave it empty"
            )
        return SensorSeries(
            values=stored,
            observed=observed,
            time_of_day=time_of_day.astype(np.float32),
            adjacency=adjacency.tocsr(),
            names=names,
            node_id=np.arange(len(values)),
            is_seen=np.ones(len(values), dtype=bool),
            position=position,
            history=self.history,
            horizon=self.horizon,
            starts={},
        )


def gaussian_kernel(distances: NDArray[np.float64], threshold: float, sigma: float = 0.0) -> sparse.csr_array:
    """Return exp(-(d / sigma)^2), 0 below `threshold`; a `sigma` of 0 stands for the deviation of the finite distances.

    `distances` [num_nodes, num_nodes], row = target, are infinite where there is no way. Source: Shuman et al., The
    Emerging Field of Signal Processing on Graphs, 2013, as Li et al., ICLR 2018, use it.
    """
    spread = sigma or float(distances[np.isfinite(distances)].std()) or 1.0
    weight = np.exp(-np.square(distances / spread))
    return sparse.csr_array(np.where(weight >= threshold, weight, 0.0))
