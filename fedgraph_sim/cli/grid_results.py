"""What the runs of a grid came to."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from fedgraph_sim.cli.cells import Cell
from fedgraph_sim.cli.run_folders import Finished, finished_runs
from fedgraph_sim.engine.files import write_text

Figure = tuple[float, ...]
"""Mean and standard deviation as printed; without the latter, or empty, where none was."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The cells with the same labels: the metric of each finished run in the grid's unit."""

    labels: Mapping[str, str]
    num_planned: int
    values: tuple[float, ...]

    @property
    def runs(self) -> str:
        """How many runs are finished."""
        done = len(self.values)
        return str(done) if done == self.num_planned else f"{done} of {self.num_planned}"

    @property
    def figure(self) -> Figure:
        """Mean and, of several runs, population standard deviation."""
        return (fmean(self.values), pstdev(self.values)) if len(self.values) > 1 else self.values


class GridResults:
    """The finished runs of a grid's cells, which lie in one folder under whatever name; new ones are added.

    `unit` "%" turns fractions into per cent.
    """

    def __init__(self, cells: Sequence[Cell], folder: Path, *, title: str, unit: str) -> None:
        self.cells = list(cells)
        self.folder = folder
        self.title = title
        self.unit = unit
        known = {run.config.model_dump_json(): run for run in finished_runs(folder)}
        keys = {cell.name: cell.config.model_dump_json() for cell in self.cells}
        self._finished = {name: known[key] for name, key in keys.items() if key in known}

    @property
    def missing(self) -> list[Cell]:
        """The cells without a finished run."""
        return [cell for cell in self.cells if cell.name not in self._finished]

    def add(self, cell: Cell, summary: Mapping[str, Any]) -> None:
        """Take in a run that was just completed, and bring the files up to date."""
        self._finished[cell.name] = Finished(folder=self.folder / cell.folder, config=cell.config, summary=summary)
        self.write()

    def run_of(self, cell: Cell) -> Finished | None:
        """Return the cell's finished run."""
        return self._finished.get(cell.name)

    def test(self, cell: Cell) -> float | None:
        """Return the test metric at the round of the run's own best validation metric, in the grid's unit."""
        run = self.run_of(cell)
        value = run.summary[f"test_{cell.config.algorithm.metric}"] if run else None
        return None if value is None else float(value) * (100 if self.unit == "%" else 1)

    def rows(self) -> list[Row]:
        """Return one row per combination of labels."""
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(tuple(cell.labels.values()), []).append(cell)
        return [
            Row(
                labels=group[0].labels,
                num_planned=len(group),
                values=tuple(value for value in map(self.test, group) if value is not None),
            )
            for group in groups.values()
        ]

    @property
    def head(self) -> tuple[str, ...]:
        """The headings of `table`."""
        metric = self.cells[0].config.algorithm.metric
        return (*self.cells[0].labels, "runs", f"test {metric} {self.unit}".strip())

    def table(self) -> list[tuple[str, ...]]:
        """Return the rows as text."""
        return [(*row.labels.values(), row.runs, printed(row.figure)) for row in self.rows()]

    def notes(self) -> list[str]:
        """Return what one has to know to read the table."""
        config = self.cells[0].config
        metric, unit = config.algorithm.metric, " in per cent" if self.unit == "%" else ""
        data = "their split and partition, too" if config.data_seed < 0 else "all with one split and one partition"
        return [
            f"here: test {metric}{unit} at the round of each run's own best validation {metric}; mean +- population "
            f"standard deviation over runs that differ in the seed of weights and draws, {data}"
        ]

    def records(self) -> list[dict[str, object]]:
        """Return the lines of ``table.csv``."""
        return [self.record(row) for row in self.rows()]

    def record(self, row: Row) -> dict[str, object]:
        """Return what ``table.csv`` says of a row."""
        mean, std = padded(row.figure)
        return {**row.labels, "runs": len(row.values), "mean": mean, "std": std}

    def write(self) -> None:
        """Write ``table.md``, ``table.csv`` (figures) and ``cells.csv`` (runs)."""
        lines = [f"| {' | '.join(row)} |" for row in (self.head, ("---",) * len(self.head), *self.table())]
        text = [f"# {self.title}", "", *lines, "", *(f"- {note}" for note in self.notes())]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / "table.md", "\n".join(text) + "\n")
        write_text(self.folder / "table.csv", _csv(self.records()))
        write_text(self.folder / "cells.csv", _csv([self._cell(cell) for cell in self.cells]))

    def _cell(self, cell: Cell) -> dict[str, object]:
        run = self.run_of(cell)
        return {
            **cell.labels,
            "seed": cell.seed,
            "test": self.test(cell),
            "best_round": run.summary["best_round"] if run else None,
            "folder": run.folder.name if run else None,
        }


def printed(figure: Figure) -> str:
    """Return a mean, with its standard deviation where there is one."""
    return " +- ".join(f"{value:.2f}" for value in figure)


def padded(figure: Figure) -> tuple[float | None, float | None]:
    """Return mean and standard deviation, None where there is none."""
    mean, std, *_ = (*figure, None, None)
    return mean, std


def _csv(lines: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
