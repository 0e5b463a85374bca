"""The two traffic networks of the forecasting literature: speeds of loop detectors, every five minutes.

Li et al., Diffusion Convolutional Recurrent Neural Network: Data-Driven Traffic Forecasting, ICLR 2018.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow.csv as pc
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from fedgraph_sim.datasets import raw
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.series_dataset import SeriesDataset, gaussian_kernel
from fedgraph_sim.errors import ConfigError

THRESHOLD = 0.1
SECONDS_PER_DAY = 24 * 60 * 60
WHERE_FROM = "they are at github.com/liyaguang/DCRNN, whose large files cannot be fetched by a program"


@dataclass(frozen=True)
class _Raw:
    """Speeds [num_steps, num_nodes], names, epoch seconds [num_steps], and adjacency, row = source."""

    speed: NDArray[np.floating]
    names: tuple[str, ...]
    seconds: NDArray[np.int64]
    adjacency: NDArray[np.floating]


class TrafficNetwork(SeriesDataset):
    """METR-LA (Los Angeles, 207 sensors, 4 months of 2012) or PEMS-BAY (Bay Area, 325 sensors, 6 months of 2017).

    `variant` says which files are read: "full" the published HDF5 file (needs the extra ``traffic``) and the road
    distances, from which links have weight exp(-(d / sigma)^2), at least 0.1; "week" of metr-la the first week of all
    sensors (los_speed.csv, metr_la_adj_207.npz); "67" of pems-bay the whole time of 67 sensors
    (pems_bay_67sensors_full.npz). A speed of 0 is a missing reading.
    """

    summary: ClassVar[str] = "speeds on roads, every five minutes"

    name: Literal["metr-la", "pems-bay"] = Field(description="which of the two networks")
    variant: Literal["full", "week", "67"] = Field("full", description="which files: all, or a part of it")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the paths of the files of the variant. Raises `ConfigError` where they are nowhere."""
        files = self._source[0]
        places = (f"traffic/{self.name}", self.name, ".")
        folder = raw.find(files, places, data_dir, cache_dir)
        if folder is None:
            for (name, variant), (others, _) in SOURCES.items():
                if name == self.name and raw.find(others, places, data_dir, cache_dir) is not None:
                    raise ConfigError(
                        f"dataset.variant={self.variant!r} needs {', '.join(files)}, which are not there, but those of "
                        f"dataset.variant={variant} are; use it"
                    )
            raise raw.missing(self.name, files, places[1], data_dir, cache_dir, WHERE_FROM)
        return [folder / file for file in files]

    def read(self, data_dir: Path | None, cache_dir: Path) -> SensorSeries:
        """Return the speeds."""
        files = self.files(data_dir, cache_dir)
        with raw.published(files[0]):
            data = self._source[1](*files)
            return self.series(
                data.speed.T,
                sparse.csr_array(data.adjacency.T),
                data.names,
                data.seconds % SECONDS_PER_DAY / SECONDS_PER_DAY,
                zero_is_missing=True,
                position=_positions(files[0].parent, data.names),
                file=files[0],
            )

    @property
    def _source(self) -> tuple[tuple[str, ...], Callable[..., _Raw]]:
        sources = {of: source for (name, of), source in SOURCES.items() if name == self.name}
        if self.variant not in sources:
            known = " or ".join(sources)
            raise ConfigError(f"dataset.variant={self.variant} is not one of {self.name}; use {known}")
        return sources[self.variant]


def _full(hdf5: Path, distances: Path, *names: Path) -> _Raw:
    """Read the tables that pandas wrote to HDF5, and the distances between sensors."""
    try:
        import h5py
    except ImportError as error:
        raise ConfigError("reading .h5 files needs h5py; install fedgraph-sim[traffic]") from error
    with h5py.File(hdf5, "r") as file:
        table: Any = next(iter(file.values()))
        columns = [name.decode() if isinstance(name, bytes) else str(name) for name in table["axis0"][:]]
        seconds = table["axis1"][:].astype(np.int64) // 10**9
        speed = table["block0_values"][:]
    index = {name: at for at, name in enumerate(columns)}
    known = np.full((len(columns), len(columns)), np.inf)
    for line in distances.read_text(encoding="utf-8").splitlines():
        source, target, cost = line.split(",")
        if source in index and target in index:
            known[index[source], index[target]] = float(cost)
    return _Raw(speed, tuple(columns), seconds, gaussian_kernel(known, THRESHOLD).toarray())


def _week(speeds: Path, adjacency: Path) -> _Raw:
    """Read a table with the names of the sensors in its first line; the week begins at midnight."""
    table = pc.read_csv(speeds)
    speed = np.stack([np.array(column.to_numpy(), np.float32) for column in table.columns], axis=1)
    links = raw.load_npz(adjacency, ("sensor_ids", "adj"))
    names = tuple(table.column_names)
    if names != tuple(map(str, links["sensor_ids"])):
        raise ValueError(f"its sensors are not those of {adjacency.name}")
    return _Raw(speed, names, np.arange(len(speed)) * 300, links["adj"])


def _npz(file: Path) -> _Raw:
    arrays = raw.load_npz(file, ("speed", "sensor_ids", "time", "adj"))
    return _Raw(arrays["speed"], tuple(map(str, arrays["sensor_ids"])), arrays["time"], arrays["adj"])


def _positions(folder: Path, names: tuple[str, ...]) -> NDArray[np.float64] | None:
    """Return longitude and latitude where a file of sensor locations lies beside the speeds."""
    for file in sorted(folder.glob("graph_sensor_locations*.csv")):
        rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
        places = {row[-3]: (float(row[-1]), float(row[-2])) for row in rows if row[-3] in names}
        if len(places) == len(names):
            return np.array([places[name] for name in names])
    return None


SOURCES: dict[tuple[str, str], tuple[tuple[str, ...], Callable[..., _Raw]]] = {
    ("metr-la", "full"): (("metr-la.h5", "distances_la_2012.csv"), _full),
    ("metr-la", "week"): (("los_speed.csv", "metr_la_adj_207.npz"), _week),
    ("pems-bay", "full"): (("pems-bay.h5", "distances_bay_2017.csv"), _full),
    ("pems-bay", "67"): (("pems_bay_67sensors_full.npz",), _npz),
}
