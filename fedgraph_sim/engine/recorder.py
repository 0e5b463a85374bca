"""Writes a run's folder: tables, TensorBoard events and the summary. There is one writer, the coordinator."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgraph_sim.engine.files import write_table, write_text
from fedgraph_sim.engine.forecasts import Curves, by_sensor, curve_rows, plots, step_rows
from fedgraph_sim.engine.growing_table import GrowingTable, rows_until
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.run_tables import GROWING, PLAIN, Extent, reports_until
from fedgraph_sim.engine.schema import TABLES, described
from fedgraph_sim.engine.tensorboard import EventFile

FLUSH_SECONDS = 5.0
FLUSH_SHARE = 0.05
"""Part of the time that may go into files which grow with the run."""


class Recorder:
    """Collects round reports and keeps the folder readable while the run goes on.

    Parquet files are replaced whole, at most every few seconds, so that a reader never sees half a file; less often
    where they are large. Of a run that `resumes` nothing is written before `restore` has read what there is.
    """

    def __init__(self, folder: Path, ledger: Ledger, *, resumes: bool = False) -> None:
        self._folder = folder
        self._knows_all = not resumes
        self._ledger = ledger
        self._tables = {name: GrowingTable(folder, name) for name in GROWING}
        self._reports: list[RoundReport] = []
        self._forecast: tuple[int, Curves] | None = None
        self._events = EventFile(folder)
        self._flushed = time.monotonic()
        self._seconds = 0.0

    @property
    def reports(self) -> Sequence[RoundReport]:
        """The reports of all rounds so far, without what they said of single clients."""
        return self._reports

    @property
    def forecast(self) -> tuple[int, Curves] | None:
        """The best round so far whose evaluation has forecasts, and these."""
        return self._forecast

    def restore(self, round: int, forecast: tuple[int, Curves] | None, expected: Mapping[str, Extent]) -> None:
        """Go back to the tables as they were after `round`, of the extents `expected`.

        Raises `ConfigError` where the tables do not allow it; nothing is changed then.
        """
        self._reports = reports_until(self._folder, round, expected if round > 0 else None)
        self._ledger.restore(rows_until(self._folder / "ledger.parquet", round))
        for table in self._tables.values():
            table.go_back(round)
        self._forecast, self._knows_all = forecast, True
        self._events.go_back(round)

    @property
    def has_matrices(self) -> bool:
        """Whether there are numbers for pairs of clients already."""
        return self._tables["matrices"].num_rows > 0

    def record(self, report: RoundReport, participants: Sequence[int], matrices: Sequence[ClientMatrix] = ()) -> None:
        """Add one round, who took part in it, and numbers for pairs of clients."""
        self._reports.append(report.without_clients())
        self._events.round(report)
        if report.evaluation is not None and report.evaluation.clients:
            self._tables["clients"].append(_client_rows(report, participants))
        if report.evaluation is not None and report.evaluation.steps:
            self._tables["steps"].append(step_rows(report.round, report.evaluation))
        for matrix in matrices:
            self._tables["matrices"].append(matrix.rows())
            self._events.matrix(matrix)
        if time.monotonic() - self._flushed > max(FLUSH_SECONDS, self._seconds / FLUSH_SHARE):
            self.flush()

    def keep_forecast(self, report: RoundReport) -> None:
        """Keep the round's forecasts, to be drawn at the end, instead of those of an earlier, worse round."""
        if report.evaluation is not None and report.evaluation.forecast:
            self._forecast = report.round, by_sensor(report.evaluation)

    def flush(self) -> None:
        """Bring the files up to date."""
        if not self._knows_all:
            return
        begin = time.monotonic()
        write_table(self._folder / "rounds.parquet", described("rounds", _round_rows(self._reports)))
        self._tables["ledger"].append(self._ledger.take())
        for table in self._tables.values():
            table.flush()
        if self._forecast is not None:
            rows = curve_rows(*self._forecast)
            write_table(self._folder / "forecasts.parquet", described("forecasts", rows))
        self._events.flush()
        self._flushed = time.monotonic()
        self._seconds = self._flushed - begin

    def close(self, summary: dict[str, Any]) -> None:
        """Write everything that is left, and the summary."""
        if not self._knows_all:
            return
        self.flush()
        self._draw()
        self._events.close(summary)
        write_text(self._folder / "summary.json", json.dumps(summary, indent=2) + "\n")

    def _draw(self) -> None:
        if self._forecast is None:
            return
        round, curves = self._forecast
        (self._folder / "forecasts").mkdir(exist_ok=True)
        for sensor, figure in plots(curves):
            figure.savefig(self._folder / "forecasts" / f"sensor-{sensor}.png", dpi=100)
            self._events.figure(f"forecast/sensor-{sensor}", figure, round)


def _round_rows(reports: list[RoundReport]) -> pa.Table:
    types = {column.name: column.type for column in TABLES["rounds"]}
    columns: dict[str, Any] = {
        name: pa.array([getattr(report, name) for report in reports], pa.type_for_alias(types[name])) for name in PLAIN
    }
    metrics = [report.evaluation.metrics if report.evaluation is not None else {} for report in reports]
    for name in dict.fromkeys(name for row in metrics for name in row):
        columns[name] = pa.array([row.get(name) for row in metrics], pa.float64())
    return pa.table(columns)


def _client_rows(report: RoundReport, participants: Sequence[int]) -> pa.Table:
    evaluation = report.evaluation
    assert evaluation is not None
    columns: dict[str, Any] = {"round": [report.round] * len(evaluation.clients), "client": list(evaluation.clients)}
    columns["participated"] = np.isin(evaluation.clients, participants)
    for name, values in evaluation.values.items():
        columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # NaN, "no such nodes", becomes null
    for name, counts in evaluation.counts.items():
        columns[f"{name}_count"] = pa.array(counts, pa.int64())
    return pa.table(columns)
