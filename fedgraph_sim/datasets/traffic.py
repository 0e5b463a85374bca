"""Time series in the user's own files."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
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
    `time` (a timestamp per row), without which the first row is at midnight. links: `source` and `target` (names of the
    sensors), and `weight` (not negative), or `distance`: then a link has weight exp(-(d / sigma)^2), sigma being the
    standard deviation of the distances, and is dropped below `threshold`. sensors: `sensor`, `longitude`, `latitude`.
    """

    summary: ClassVar[str] = "your own time series: a folder with the tables series and links"

    name: Literal["traffic"] = Field("traffic", description="name of the data set")
    path: AbsolutePath = Field(description="the folder")
    threshold: float = Field(0.1, ge=0, le=1, description="least weight of a link that is given by its distance")
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
        table = _read(series_file, ())
        names = tuple(name for name in table.column_names if name != TIME)
        columns.refuse_no_features(names, series_file)
        values = np.stack([_numbers(table, name, series_file) for name in names])
        return self.series(
            values,
            self._links(links_file, names),
            names,
            self._time_of_day(table, series_file),
            zero_is_missing=self.zero_is_missing,
            position=_positions(sensors_file[0], names) if sensors_file else None,
        )

    def _links(self, path: Path, names: tuple[str, ...]) -> sparse.csr_array:
        table = _read(path, ("source", "target"))
        ids = pa.array(names, pa.large_string())
        text = table.set_column(table.column_names.index("source"), "source", _text(table["source"]))
        text = text.set_column(text.column_names.index("target"), "target", _text(table["target"]))
        sources, targets = (columns.positions(text, end, ids, path) for end in ("source", "target"))
        if "weight" in table.column_names:
            weight = columns.numbers(table, "weight", path).astype(np.float64)
            if not (np.isfinite(weight) & (weight >= 0)).all():
                raise ConfigError(f"{path}: a weight is negative or no number; correct it")
            return sparse.coo_array((weight, (targets, sources)), (len(names), len(names))).tocsr()
        if "distance" not in table.column_names:
            raise ConfigError(f"{path} has neither a column weight nor a column distance; add one of them")
        distances = np.full((len(names), len(names)), np.inf)
        distances[targets, sources] = columns.numbers(table, "distance", path)
        np.fill_diagonal(distances, 0)
        return gaussian_kernel(distances, self.threshold)

    def _time_of_day(self, table: pa.Table, path: Path) -> NDArray[np.float64]:
        if TIME not in table.column_names:
            return np.arange(table.num_rows) * self.minutes % MINUTES_PER_DAY / MINUTES_PER_DAY
        column = table[TIME].combine_chunks()
        if not pa.types.is_timestamp(column.type) or column.null_count:
            raise ConfigError(f"{path}: column time is of type {column.type} but must be timestamps, none missing")
        midnight = pc.floor_temporal(column, unit="day")
        seconds = pc.seconds_between(midnight, column).to_numpy(zero_copy_only=False)
        return np.asarray(seconds, np.float64) / (60 * MINUTES_PER_DAY)


def _table_file(folder: Path, name: str) -> Path | None:
    return next((folder / f"{name}{end}" for end in FORMATS if (folder / f"{name}{end}").is_file()), None)


def _read(path: Path, required: Sequence[str]) -> pa.Table:
    if path.suffix == ".parquet":
        return columns.read_table(path, required, min_rows=1)
    try:
        table = pyarrow.csv.read_csv(path)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{path} is not a readable CSV file ({error}); correct dataset.path or the file") from error
    for name in required:
        if name not in table.column_names:
            raise ConfigError(f"{path} has no column {name} among {', '.join(table.column_names)}; add it")
    return table


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.large_string())


def _numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.float64]:
    """Return a column of numbers; NaN where a reading is missing."""
    column = table[name].combine_chunks()
    if pa.types.is_null(column.type):  # a sensor that never read anything
        return np.full(len(column), np.nan)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ConfigError(f"{path}: column {name} is of type {column.type} but must be numeric; convert or remove it")
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _positions(path: Path, names: tuple[str, ...]) -> NDArray[np.float64]:
    table = _read(path, ("sensor", "longitude", "latitude"))
    places = dict(
        zip(
            _text(table["sensor"]).to_pylist(),
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
