"""Runs what is missing of a grid, and shows it."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedgraph_sim.cli.catalog import table_console
from fedgraph_sim.cli.grid import Cell
from fedgraph_sim.cli.grid_results import TABLE_HEAD, GridResults, printed
from fedgraph_sim.cli.progress import stop_on_signal
from fedgraph_sim.engine.launch import Folders
from fedgraph_sim.engine.report import Outcome, RoundReport, Started
from fedgraph_sim.engine.runners import Plan, run_all


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a grid ended: the names of the runs that failed, and whether the user stopped it."""

    failed: tuple[str, ...]
    interrupted: bool


def run_missing(results: GridResults, folders: Folders, jobs: int | None) -> Ending:
    """Run the cells that have no result, `jobs` at a time, and add what they come to."""
    console = Console(stderr=True, highlight=False)
    missing = results.missing
    done = len(results.cells) - len(missing)
    console.print(f"{results.paper.title}: {len(results.cells)} runs, {done} of them done", soft_wrap=True)
    results.write()
    if not missing:
        return Ending(failed=(), interrupted=False)
    plans = [Plan(config=cell.config, folders=replace(folders, run=folders.run / cell.folder)) for cell in missing]
    with console.status("starting"):
        runs = run_all(plans, jobs)
    failed = []
    with Board(missing, console) as board, stop_on_signal(runs.stop, console):
        for number, event in runs.events():
            cell = missing[number]
            if isinstance(event, Started):
                board.started(cell)
            elif isinstance(event, RoundReport):
                board.advanced(cell)
            elif isinstance(event, Outcome):
                if event.status == "completed":
                    results.add(cell, event.summary)
                elif event.status == "failed":
                    failed.append(cell.name)
                board.ended(cell, event, _result(results, cell))
    return Ending(failed=tuple(failed), interrupted=len(results.missing) > len(failed))


class Board:
    """Shows the runs under way on standard error: bars on a terminal, and a line for each run that ends."""

    def __init__(self, cells: Sequence[Cell], console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=console)
        self._all = self._bars.add_task("rounds of all runs", total=sum(cell.config.num_rounds for cell in cells))
        self._each: dict[str, TaskID] = {}
        self._begin: dict[str, float] = {}
        self._num_cells = len(cells)
        self._num_ended = 0

    def __enter__(self) -> "Board":
        if self._bars.console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def started(self, cell: Cell) -> None:
        """Add a bar for a run."""
        self._begin[cell.name] = time.monotonic()
        self._each[cell.name] = self._bars.add_task(cell.name, total=cell.config.num_rounds)

    def advanced(self, cell: Cell) -> None:
        """Count a round of a run."""
        self._bars.advance(self._all)
        self._bars.advance(self._each[cell.name])

    def ended(self, cell: Cell, outcome: Outcome, result: str) -> None:
        """Replace the run's bar by a line."""
        self._num_ended += 1
        seconds = 0.0
        if cell.name in self._each:
            self._bars.remove_task(self._each.pop(cell.name))
            seconds = time.monotonic() - self._begin[cell.name]
        shown = result if outcome.status == "completed" else outcome.status
        left = self._bars.tasks[0].time_remaining
        line = f"{self._num_ended}/{self._num_cells}  {cell.name}  {shown}  {seconds:.1f} s"
        line += f"  {timedelta(seconds=round(left))} left" if left else ""
        self._bars.console.print(line, soft_wrap=True, markup=False)
        if outcome.details:
            self._bars.console.print(outcome.details, markup=False)
        if outcome.error:
            self._bars.console.print(f"Error: {outcome.error}", markup=False, style="red", soft_wrap=True)


def print_cells(results: GridResults) -> None:
    """Print every run, with its result and folder where it is done."""
    console = table_console()
    table = Table("run", "result", "folder", box=box.SIMPLE_HEAD)
    for cell in results.cells:
        run = results.run_of(cell)
        table.add_row(cell.name, _result(results, cell), os.path.relpath(run.folder) if run else "")
    console.print(table)
    console.print(f"{len(results.cells)} runs, {len(results.cells) - len(results.missing)} of them done")


def print_results(results: GridResults, ending: Ending) -> None:
    """Print the table, what it means, and where everything is."""
    console = table_console()
    table = Table(*TABLE_HEAD, box=box.SIMPLE_HEAD)
    for row in results.table():
        table.add_row(*row)
    console.print(table)
    for note in results.notes():
        console.print(note, markup=False, soft_wrap=True)
    for name in ending.failed:
        console.print(f"failed: {name}", markup=False, style="red")
    console.print(f"Results: {os.path.relpath(results.folder)}", soft_wrap=True)
    for file, meaning in FILES.items():
        console.print(f"  {file:<16} {meaning}", soft_wrap=True)


FILES = {
    "table.md": "this table",
    "table.csv": "its figures",
    "cells.csv": "one row per run",
    "*/config.toml": "repeats a run: fedgraph-sim run .../config.toml",
}


def _result(results: GridResults, cell: Cell) -> str:
    if results.run_of(cell) is None:
        return "to do"
    value = results.test(cell)
    return "not available" if value is None else f"{printed((value,))} {results.paper.unit}".rstrip()
