"""Writes a run's folder: tables, TensorBoard events and the summary. There is one writer, the coordinator."""

import json
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch.utils.tensorboard import SummaryWriter

from fedgraph_sim.engine.files import write_table, write_text
from fedgraph_sim.engine.forecasts import Curves, by_sensor, plots, step_rows, write_curves
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.report import RoundReport

FLUSH_SECONDS = 5.0
FLUSH_SHARE = 0.05
"""Part of the time that may go into files which grow with the run."""


class Recorder:
    """Collects round reports and keeps the folder readable while the run goes on.

    Parquet files are replaced whole, at most every few seconds, so that a reader never sees half a file; less often
    where they are large.
    """

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self._folder = folder
        self._ledger = ledger
        self._reports: list[RoundReport] = []
        self._clients: list[pa.RecordBatch] = []
        self._matrices: list[pa.RecordBatch] = []
        self._steps: list[pa.RecordBatch] = []
        self._forecast: tuple[int, Curves] | None = None
        self._tensorboard = SummaryWriter(str(folder))
        self._flushed = time.monotonic()
        self._seconds = 0.0

    def record(self, report: RoundReport, matrices: Sequence[ClientMatrix] = ()) -> None:
        """Add one round, and numbers for pairs of clients."""
        self._reports.append(report)
        self._scalars(report)
        if report.evaluation is not None and report.evaluation.clients:
            self._clients.append(_client_rows(report))
        if report.evaluation is not None and report.evaluation.steps:
            self._steps.append(step_rows(report.round, report.evaluation))
        for matrix in matrices:
            self._matrices.append(matrix.rows())
            self._tensorboard.add_image(matrix.name, matrix.image(), matrix.round, dataformats="HW")
        if time.monotonic() - self._flushed > max(FLUSH_SECONDS, self._seconds / FLUSH_SHARE):
            self.flush()

    def keep_forecast(self, report: RoundReport) -> None:
        """Keep the round's forecasts, to be drawn at the end, instead of those of an earlier, worse round."""
        if report.evaluation is not None and report.evaluation.forecast:
            self._forecast = report.round, by_sensor(report.evaluation)

    def flush(self) -> None:
        """Bring the files up to date."""
        begin = time.monotonic()
        write_table(self._folder / "rounds.parquet", _round_rows(self._reports))
        if self._clients:
            # Rounds may be measured by other names than those after them.
            parts = [pa.Table.from_batches([batch]) for batch in self._clients]
            table = pa.concat_tables(parts, promote_options="default")
            write_table(self._folder / "clients.parquet", table)
        if self._matrices:
            write_table(self._folder / "matrices.parquet", pa.Table.from_batches(self._matrices))
        if self._steps:
            write_table(self._folder / "steps.parquet", pa.Table.from_batches(self._steps))
        if self._forecast is not None:
            write_curves(self._folder / "forecast.parquet", *self._forecast)
        write_table(self._folder / "ledger.parquet", self._ledger.table())
        self._tensorboard.flush()
        self._flushed = time.monotonic()
        self._seconds = self._flushed - begin

    def close(self, summary: dict[str, Any]) -> None:
        """Write everything that is left, and the summary."""
        self.flush()
        self._draw()
        self._tensorboard.close()
        write_text(self._folder / "summary.json", json.dumps(summary, indent=2) + "\n")

    def _draw(self) -> None:
        if self._forecast is None:
            return
        round, curves = self._forecast
        (self._folder / "forecasts").mkdir(exist_ok=True)
        for sensor, figure in plots(curves):
            figure.savefig(self._folder / "forecasts" / f"sensor-{sensor}.png", dpi=100)
            self._tensorboard.add_figure(f"forecast/sensor-{sensor}", figure, round)

    def _scalars(self, report: RoundReport) -> None:
        values: dict[str, float | None] = {
            "bytes/up": report.bytes_up,
            "bytes/down": report.bytes_down,
            "seconds/round": report.seconds,
        }
        if report.evaluation is not None:
            for name, value in report.evaluation.metrics.items():
                part, _, metric = name.partition("_")
                values[f"{metric}/{part}"] = value
        for tag, scalar in values.items():
            if scalar is not None:
                self._tensorboard.add_scalar(tag, scalar, report.round)


def _round_rows(reports: list[RoundReport]) -> pa.Table:
    names = [field.name for field in fields(RoundReport) if field.name not in ("round", "participants", "evaluation")]
    columns: dict[str, Any] = {"round": [report.round for report in reports]}
    columns["num_participants"] = [len(report.participants) for report in reports]
    columns |= {name: [getattr(report, name) for report in reports] for name in names}
    metrics = [report.evaluation.metrics if report.evaluation is not None else {} for report in reports]
    for name in dict.fromkeys(name for row in metrics for name in row):
        columns[name] = pa.array([row.get(name) for row in metrics], pa.float64())
    return pa.table(columns)


def _client_rows(report: RoundReport) -> pa.RecordBatch:
    evaluation = report.evaluation
    assert evaluation is not None
    columns: dict[str, Any] = {"round": [report.round] * len(evaluation.clients), "client": list(evaluation.clients)}
    columns["participated"] = np.isin(evaluation.clients, report.participants)
    for name, values in evaluation.values.items():
        columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # NaN, "no such nodes", becomes null
    for name, counts in evaluation.counts.items():
        columns[f"{name}_count"] = pa.array(counts, pa.int64())
    return pa.RecordBatch.from_pydict(columns)
