"""A run for TensorBoard: curves by group, histograms over clients, images, and hyper-parameters with what they led to.

All of it lies in one event file, so that ``tensorboard --logdir runs`` shows one line per run.
"""

import json
import threading
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from fedgraph_sim.engine.files import CONFIG_FILE, PARTITION_FILE
from fedgraph_sim.engine.matrices import MISSING_EDGES, ClientMatrix, shades
from fedgraph_sim.engine.report import RoundReport

BINS = 20
"""Bins of a histogram over clients, between the smallest and the largest value."""


def show_unless_kept(failure: threading.ExceptHookArgs) -> None:
    """Print what ended a thread, but not of TensorBoard's, which keeps it and raises it where the run writes next."""
    if type(failure.thread).__name__ != "_AsyncWriterThread":
        _show(failure)


_show, threading.excepthook = threading.excepthook, show_unless_kept


class EventFile:
    """Writes the event file of the run in `folder`, with what the folder says of its partition and configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = SummaryWriter(str(folder))
        if (folder / PARTITION_FILE).exists():
            self._partition(json.loads((folder / PARTITION_FILE).read_bytes()))

    def round(self, report: RoundReport) -> None:
        """Add a round's scalars, and of an evaluated round the histograms over its clients."""
        for tag, value in _scalars(report):
            if value is not None:
                self._writer.add_scalar(tag, value, report.round)
        if report.evaluation is not None and report.evaluation.clients:
            for name, values in report.evaluation.values.items():
                known = values[np.isfinite(values)]
                if name.startswith(("val_", "test_")) and not name.endswith("_loss") and len(known):
                    self._histogram(f"{_tag(name)}_clients", known, report.round)

    def matrix(self, matrix: ClientMatrix) -> None:
        """Add numbers for pairs of clients as an image."""
        if matrix.round:
            self._image(matrix.name, matrix.values, matrix.round)
        elif matrix.name != MISSING_EDGES:  # which is there from the beginning
            self._image(f"partition/{matrix.name}", matrix.values, 0)

    def figure(self, tag: str, figure: Any, round: int) -> None:
        """Add a drawing of matplotlib's as an image."""
        self._writer.add_figure(tag, figure, round)

    def go_back(self, round: int) -> None:
        """Let TensorBoard forget what comes after `round`, whose successors are recorded again."""
        self._writer.close()
        self._writer = SummaryWriter(str(self._folder), purge_step=round + 1)

    def flush(self) -> None:
        """Bring the file up to date."""
        self._writer.flush()

    def close(self, summary: Mapping[str, Any]) -> None:
        """Add the hyper-parameters with the final metrics, where there are any."""
        metrics = {
            f"final/{name}": value
            for name, value in summary.items()
            if name.startswith(("val_", "test_")) and value is not None
        }
        if metrics and (self._folder / CONFIG_FILE).exists():
            config = tomllib.loads((self._folder / CONFIG_FILE).read_text(encoding="utf-8"))
            for event in hparams(dict(_flat(config)), metrics):  # type: ignore[no-untyped-call]
                self._writer.file_writer.add_summary(event)  # type: ignore[attr-defined]  # there while it is open
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, summary["rounds"])
        self._writer.close()

    def _partition(self, info: Mapping[str, Any]) -> None:
        """Show what is known of the partition, which depends on the kind of data."""
        if info.get("cut") is not None:
            self._image(f"partition/{MISSING_EDGES}", np.array(info["cut"], np.float64), 0)
        counts = np.array(info.get("class_counts", ()), np.float64)
        if counts.size:
            self._image("partition/class_shares", counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), 0)
        if "nodes" in info:
            self._histogram("partition/nodes", np.array(info["nodes"], np.float64), 0)

    def _image(self, tag: str, values: NDArray[np.floating], round: int) -> None:
        self._writer.add_image(tag, shades(values), round, dataformats="HW")

    def _histogram(self, tag: str, values: NDArray[np.float64], round: int) -> None:
        counts, edges = np.histogram(values, BINS)
        self._writer.add_histogram_raw(
            tag,
            min=float(values.min()),
            max=float(values.max()),
            num=len(values),
            sum=float(values.sum()),
            sum_squares=float(np.square(values).sum()),
            bucket_limits=edges[1:].tolist(),
            bucket_counts=counts.tolist(),
            global_step=round,
        )


def _scalars(report: RoundReport) -> Iterator[tuple[str, float | None]]:
    yield "bytes/up", report.bytes_up
    yield "bytes/down", report.bytes_down
    yield "seconds/round", report.seconds
    yield "seconds/compute", report.seconds_compute
    yield "seconds/server", report.seconds_server
    yield "seconds/evaluation", report.seconds_evaluation
    if report.evaluation is not None:
        for name, value in report.evaluation.metrics.items():
            yield _tag(name), value


def _tag(name: str) -> str:
    """Return ``accuracy/val`` for ``val_accuracy``, so that what is alike stands together."""
    part, _, metric = name.partition("_")
    return f"{metric}/{part}" if metric else name


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | int | float | str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, bool | int | float | str) else str(value)
