"""What the runs of a grid came to, beside what was published."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from fedgraph_sim.cli.grid import Cell, Choice, Figure, Paper, Published, cells_of
from fedgraph_sim.cli.run_folders import Finished, finished_runs
from fedgraph_sim.engine.files import write_text

TABLE_HEAD = ("recipe", "method", "runs", "here", "published")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One recipe and method: the metric of each finished run in the paper's unit, and the published figures."""

    recipe: str
    method: str
    num_planned: int
    values: tuple[float, ...]
    published: tuple[tuple[Published, Figure], ...]

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
    """The finished runs of a grid's cells, which lie in one folder under whatever name; new ones are added."""

    def __init__(self, paper: Paper, choice: Choice, folder: Path) -> None:
        self.paper = paper
        self.cells = cells_of(paper, choice)
        self._changes = choice.changes
        self.folder = folder
        known = {run.config.model_dump_json(): run for run in finished_runs(folder)}
        keys = {cell.name: cell.config.model_dump_json() for cell in self.cells}
        self._finished = {name: known[key] for name, key in keys.items() if key in known}
        sources = dict.fromkeys(table.source for table in paper.published)
        self._letters = {source: chr(ord("a") + number) for number, source in enumerate(sources)}

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
        """Return the test metric at the round of the run's own best validation metric, in the paper's unit."""
        run = self.run_of(cell)
        value = run.summary[f"test_{cell.config.algorithm.metric}"] if run else None
        return None if value is None else float(value) * (100 if self.paper.unit == "%" else 1)

    def rows(self) -> list[Row]:
        """Return one row per recipe and method."""
        groups: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault((cell.recipe, cell.method), []).append(cell)
        return [
            Row(
                recipe=recipe,
                method=method,
                num_planned=len(group),
                values=tuple(value for value in map(self.test, group) if value is not None),
                published=tuple(self.paper.figures(recipe, method)),
            )
            for (recipe, method), group in groups.items()
        ]

    def table(self) -> list[tuple[str, ...]]:
        """Return the rows as text, in the order of `TABLE_HEAD`; a letter after a figure names its source."""
        return [
            (
                row.recipe,
                row.method,
                row.runs,
                printed(row.figure),
                ", ".join(f"{printed(figure)} ({self._letters[table.source]})" for table, figure in row.published),
            )
            for row in self.rows()
        ]

    def notes(self) -> list[str]:
        """Return what one has to know to read the table."""
        config = self.cells[0].config
        metric, unit = config.algorithm.metric, " in per cent" if self.paper.unit == "%" else ""
        data = "their split and partition, too" if config.data_seed < 0 else "all with one split and one partition"
        here = (
            f"here: test {metric}{unit} at the round of each run's own best validation {metric}; mean +- population "
            f"standard deviation over runs that differ in the seed of weights and draws, {data}"
        )
        used = {table.source: table for row in self.rows() for table, _ in row.published}
        changed = [f"not as in the recipes: {', '.join(self._changes)}"] if self._changes else []
        return [here, *changed, self.paper.note] + [
            f"({letter}) {source}" + (" (a secondary source)" if used[source].secondary else "")
            for source, letter in self._letters.items()
            if source in used
        ]

    def write(self) -> None:
        """Write ``table.md``, ``table.csv`` (figures) and ``cells.csv`` (runs)."""
        lines = [f"| {' | '.join(row)} |" for row in (TABLE_HEAD, ("---",) * len(TABLE_HEAD), *self.table())]
        text = [f"# {self.paper.title}", "", *lines, "", *(f"- {note}" for note in self.notes())]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / "table.md", "\n".join(text) + "\n")
        write_text(self.folder / "table.csv", _csv([line for row in self.rows() for line in _figures(row)]))
        write_text(self.folder / "cells.csv", _csv([self._record(cell) for cell in self.cells]))

    def _record(self, cell: Cell) -> dict[str, object]:
        run = self.run_of(cell)
        return {
            "recipe": cell.recipe,
            "method": cell.method,
            "seed": cell.seed,
            "test": self.test(cell),
            "best_round": run.summary["best_round"] if run else None,
            "folder": run.folder.name if run else None,
        }


def printed(figure: Figure) -> str:
    """Return a mean, with its standard deviation where there is one."""
    return " +- ".join(f"{value:.2f}" for value in figure)


def _figures(row: Row) -> list[dict[str, object]]:
    """Return a line per published figure of the row, or one line without."""
    mean, std = _padded(row.figure)
    lines = []
    for table, figure in row.published or [(None, ())]:
        published_mean, published_std = _padded(figure)
        lines.append(
            {
                "recipe": row.recipe,
                "method": row.method,
                "runs": len(row.values),
                "mean": mean,
                "std": std,
                "published_mean": published_mean,
                "published_std": published_std,
                "published_runs": table.runs if table else None,
                "source": table.source if table else None,
                "secondary": table.secondary if table else None,
            }
        )
    return lines


def _padded(figure: Figure) -> tuple[float | None, float | None]:
    mean, std, *_ = (*figure, None, None)
    return mean, std


def _csv(lines: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
