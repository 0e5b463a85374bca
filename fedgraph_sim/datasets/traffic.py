"""Time series in the user's own files."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from fedgraph_sim.datasets import columns
from fedgraph_sim.datasets.dataset import AbsolutePath
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.series_dataset import MINUTES_PER_DAY, SeriesDataset, gaussian_kernel
from fedgraph_sim.errors import ConfigError

FORMATS = (".parquet", ".csv")
TIME = "time"


class Traffic(SeriesDataset):
    """A folder with the tables `series`, `links` and perhaps `sensors`, each as .parquet or .csv with a header.

    series: one column of numbers per sensor, in the order of time; what is empty or not a number is missing; optional
    `time` (a timestamp per row, evenly spaced), without which the first row is at midnight. links: `source` and
    `target` (names of the sensors; what is read at `source` reaches `target`, so that a link both ways has two rows),
    and `weight` (not negative), or `distance`: then a link has weight exp(-(d / sigma)^2), and is dropped below
    `threshold`. sensors: `sensor`, `longitude`, `latitude`.
    """

    summary: ClassVar[str] = "your own time series: a folder with the tables series and links"

    name: Literal["traffic"] = Field("traffic", description="name of the data set")
    path: AbsolutePath = Field(description="the folder")
    threshold: float = Field(0.1, ge=0, le=1, description="least weight of a link that is given by its distance")
    sigma: float = Field(
        0.0, ge=0, description="distance at which a link's weight is 1/e; 0: the standard deviation of the distances"
    )
    minutes: float = Field(
        5.0,
        gt=0,
        le=MINUTES_PER_DAY,
        description="time from one row to the next, where there is no column time",
        json_schema_extra={"unit": "minutes"},
    )
    zero_is_missing: bool = Field(False, description="whether a reading of 0 is a missing one, as in METR-LA")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the paths of the tables."""
        found = [_table_file(self.path, name) for name in ("series", "links", "sensors")]
        for name, file in zip(("series", "links"), found, strict=False):
            if file is None:
                raise ConfigError(f"dataset.path={self.path} has no {name}.parquet or {name}.csv; add it")
        return [file for file in found if file is not None]

    def read(self, data_dir: Path | None, cache_dir: Path) -> SensorSeries:
        """Return the series, every column checked."""
        series_file, links_file, *sensors_file = self.files(data_dir, cache_dir)
        table = columns.read_table(series_file, (), min_rows=1, row="time step")
        names = tuple(name for name in table.column_names if name != TIME)
        if not names:
            raise ConfigError(f"{series_file} has no column of a sensor; add a column of readings for each")
        values = np.stack([_numbers(table, name, series_file) for name in names])
        return self.series(
            values,
            self._links(links_file, names, series_file),
            names,
            self._time_of_day(table, series_file),
            zero_is_missing=self.zero_is_missing,
            position=_positions(sensors_file[0], names) if sensors_file else None,
            file=series_file,
        )

    def _links(self, path: Path, names: tuple[str, ...], series_file: Path) -> sparse.csr_array:
        ends = ("source", "target")
        table = columns.read_table(path, ends, min_rows=0, text=ends)
        nouns = {"known": f"sensor in {series_file.name}", "way_out": "remove the link or add the sensor"}
        ids = pa.array(names, pa.large_string())
        sources, targets = (columns.positions(_with_text(table, end, path), end, ids, path, **nouns) for end in ends)
        if "weight" in table.column_names:
            weight = columns.not_negative(table, "weight", path).astype(np.float64)
            return sparse.coo_array((weight, (targets, sources)), (len(names), len(names))).tocsr()
        if "distance" not in table.column_names:
            raise ConfigError(f"{path} has neither a column weight nor a column distance; add one of them")
        distances = np.full((len(names), len(names)), np.inf)
        given = columns.not_negative(table, "distance", path)
        distances[targets, sources] = given
        np.fill_diagonal(distances, 0)
        weights = gaussian_kernel(distances, self.threshold, self.sigma)
        if len(given) and weights.count_nonzero() == np.count_nonzero(weights.diagonal()):
            raise ConfigError(
                f"{path}: all links have a weight below dataset.threshold={self.threshold:g}, at distances from "
                f"{given.min():g} to {given.max():g}; set dataset.sigma to a distance at which two sensors still "
                "matter to each other, or lower dataset.threshold"
            )
        return weights

    def _time_of_day(self, table: pa.Table, path: Path) -> NDArray[np.float64]:
        if TIME not in table.column_names:
            return np.arange(table.num_rows) * self.minutes % MINUTES_PER_DAY / MINUTES_PER_DAY
        column = table[TIME].combine_chunks()
        if not pa.types.is_timestamp(column.type):
            raise ConfigError(f"{path}: column time is of type {column.type} but must be timestamps; convert it")
        if column.null_count:
            row = 1 + pc.index(column.is_null(), True).as_py()
            raise ConfigError(f"{path}: the time of row {row} is missing; fill it in")
        steps = np.diff(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_numpy())
        odd = np.flatnonzero((steps != steps[:1]) | (steps <= 0))
        if len(odd):
            before, after = column[int(odd[0])].as_py(), column[int(odd[0]) + 1].as_py()
            raise ConfigError(
                f"{path}: the rows are not evenly spaced in time, {before} is followed by {after}; sort them, and add "
                "a row without readings for every time that is missing"
            )
        midnight = pc.floor_temporal(column, unit="day")
        seconds = pc.seconds_between(midnight, column).to_numpy(zero_copy_only=False)
        return np.asarray(seconds, np.float64) / (60 * MINUTES_PER_DAY)


def _table_file(folder: Path, name: str) -> Path | None:
    return next((folder / f"{name}{end}" for end in FORMATS if (folder / f"{name}{end}").is_file()), None)


def _with_text(table: pa.Table, name: str, path: Path) -> pa.Table:
    """Return the table with a column of sensors' names as text, as which they stand in the header of the series."""
    text = columns.keys(table, name, path).cast(pa.large_string())
    return table.set_column(table.column_names.index(name), name, text)


def _numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.float64]:
    """Return a column of numbers; NaN where a reading is missing."""
    column = table[name].combine_chunks()
    if pa.types.is_null(column.type):  # a sensor that never read anything
        return np.full(len(column), np.nan)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        way_out = f"call it {TIME}" if pa.types.is_timestamp(column.type) else "convert or remove it"
        raise ConfigError(f"{path}: column {name} is of type {column.type} but must be numeric; {way_out}")
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _positions(path: Path, names: tuple[str, ...]) -> NDArray[np.float64]:
    table = columns.read_table(path, ("sensor", "longitude", "latitude"), min_rows=1, row="sensor", text=("sensor",))
    places = dict(
        zip(
            _with_text(table, "sensor", path)["sensor"].to_pylist(),
            zip(
                columns.numbers(table, "longitude", path),
                columns.numbers(table, "latitude", path),
                strict=True,
            ),
            strict=True,
        )
    )
    missing = [name for name in names if name not in places]
    if missing:
        raise ConfigError(f"{path} has no row for the sensor {missing[0]}; add it")
    return np.array([places[name] for name in names], np.float64)
