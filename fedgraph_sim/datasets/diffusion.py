"""A synthetic road network whose traffic moves on from sensor to sensor: what comes is at the neighbours already."""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.series_dataset import MINUTES_PER_DAY, SeriesDataset

STEPS_PER_DAY = MINUTES_PER_DAY // 5


class Diffusion(SeriesDataset):
    """Waves of traffic that enter at the ends of roads and travel along them, one sensor further every `delay` steps.

    ``v_i(t) = strength sum_j P_ij v_j(t - delay) + e_i(t)``: P_ij spreads what passes j over the sensors after it, and
    e_i is what enters at i, a wave of Gaussian shape at random times, mostly at sensors that begin a road. A reading is
    ``60 + rhythm_i(t) - 6 v_i(t) + noise z``, with a daily rhythm of two rush hours and z ~ N(0, 1). A sensor alone
    cannot know what is on its way to it; the sensors before it do. Roads are chains of sensors; `num_junctions` further
    links lead from one road into another.
    """

    summary: ClassVar[str] = "synthetic traffic that travels along roads, so that the graph matters; needs no files"

    name: Literal["diffusion"] = Field("diffusion", description="name of the data set")
    num_roads: int = Field(4, ge=1, le=10_000, description="roads", json_schema_extra={"unit": "roads"})
    road_length: int = Field(5, ge=1, le=10_000, description="sensors of a road", json_schema_extra={"unit": "sensors"})
    num_junctions: int = Field(
        4, ge=0, le=10**6, description="links from one road into another", json_schema_extra={"unit": "links"}
    )
    length: int = Field(
        5 * STEPS_PER_DAY,
        ge=2,
        le=10**7,
        description="time steps of five minutes",
        json_schema_extra={"unit": "steps"},
    )
    delay: int = Field(
        5, ge=1, le=10_000, description="time steps from one sensor to the next", json_schema_extra={"unit": "steps"}
    )
    strength: float = Field(0.95, ge=0, le=1, description="share of a wave that goes on")
    waves: float = Field(3.0, ge=0, le=1e4, description="waves that enter a road per 100 steps, on average")
    noise: float = Field(0.5, ge=0, le=1e4, description="standard deviation of a reading's error")
    missing: float = Field(0.0, ge=0, le=1, description="share of the readings that are missing")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of the series, whatever the seed of the run")

    def read(self, data_dir: Path | None, cache_dir: Path) -> SensorSeries:
        """Return a fresh sample; the same options give the same series."""
        rng = np.random.default_rng(self.seed)
        count = self.num_roads * self.road_length
        adjacency = self._links(rng)
        passed_on = adjacency / np.maximum(np.asarray(adjacency.sum(axis=0)), 1)  # columns: what leaves a sensor
        entering = self._entering(rng)
        traffic = np.zeros((count, self.length))
        for step in range(self.length):
            traffic[:, step] = entering[:, step]
            if step >= self.delay:
                traffic[:, step] += self.strength * (passed_on @ traffic[:, step - self.delay])
        time_of_day = np.arange(self.length) % STEPS_PER_DAY / STEPS_PER_DAY
        rhythm = rng.uniform(3, 7, (count, 1)) * _rush(time_of_day)
        values = 60 - rhythm - 6 * traffic + self.noise * rng.standard_normal((count, self.length))
        values[rng.random(values.shape) < self.missing] = np.nan
        road, place = np.divmod(np.arange(count), self.road_length)
        return self.series(
            values,
            adjacency + sparse.eye_array(count),
            tuple(f"road-{on}-sensor-{at}" for on, at in zip(road, place, strict=True)),
            time_of_day,
            zero_is_missing=False,
            position=np.stack([place, road], axis=1).astype(np.float64),
        )

    def _links(self, rng: np.random.Generator) -> sparse.csr_array:
        """Return the links, row = target, each of weight 1, without those of a sensor to itself."""
        count = self.num_roads * self.road_length
        along = [node for node in range(count) if (node + 1) % self.road_length]
        sources, targets = list(along), [node + 1 for node in along]
        for _ in range(self.num_junctions if self.num_roads > 1 else 0):
            source, target = rng.integers(0, count, 2)
            if source // self.road_length != target // self.road_length:
                sources.append(source)
                targets.append(target)
        links = sparse.coo_array((np.ones(len(sources)), (targets, sources)), (count, count)).tocsr()
        links.data[:] = 1
        return links

    def _entering(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return what enters at each sensor: waves at the beginnings of roads, and a tenth as many anywhere else."""
        count = self.num_roads * self.road_length
        rate = np.where(np.arange(count) % self.road_length == 0, self.waves, self.waves / 10) / 100
        starts = rng.random((count, self.length)) < rate[:, None]
        pulses = np.where(starts, rng.uniform(0.5, 1.5, starts.shape), 0.0)
        shape = np.exp(-0.5 * np.square(np.arange(-6, 7) / 2.0))
        return np.stack([np.convolve(row, shape, mode="same") for row in pulses])


def _rush(time_of_day: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how strong the rush hours are, at half past eight in the morning and at six in the evening, up to 1."""
    return np.exp(-0.5 * np.square((time_of_day - 0.354) / 0.05)) + np.exp(
        -0.5 * np.square((time_of_day - 0.75) / 0.06)
    )
