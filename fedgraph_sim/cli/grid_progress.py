"""Runs what is missing of a grid, and shows it."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.table import Table

from fedgraph_sim.cli.consoles import progress_console, table_console
from fedgraph_sim.cli.grid_board import Board, result_of, table_of
from fedgraph_sim.cli.grid_results import GridResults
from fedgraph_sim.cli.progress import only_results, stop_on_signal
from fedgraph_sim.cli.run import INTERRUPTED
from fedgraph_sim.configuration import cache_folder
from fedgraph_sim.counts import counted
from fedgraph_sim.engine.launch import Folders
from fedgraph_sim.engine.report import Outcome, RoundReport, Started
from fedgraph_sim.engine.runners import Plan, run_all


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a grid ended: the names of the runs that failed, and whether the user stopped it."""

    failed: tuple[str, ...]
    interrupted: bool


def run_grid(results: GridResults, data_dir: Path | None, *, jobs: int | None, dry_run: bool) -> int:
    """Run what is missing of a grid and print what it comes to, or with `dry_run` only show it; return an exit code."""
    if dry_run:
        print_cells(results)
        return 0
    folders = Folders(run=results.folder, cache=cache_folder(), data=data_dir and data_dir.absolute())
    ending = run_missing(results, folders, jobs)
    print_results(results, ending)
    if ending.failed:
        return 1
    return INTERRUPTED if ending.interrupted else 0


def run_missing(results: GridResults, folders: Folders, jobs: int | None) -> Ending:
    """Run the cells that have no result, `jobs` at a time, and add what they come to."""
    console = progress_console()
    missing = results.missing
    done = len(results.cells) - len(missing)
    console.print(f"{results.title}: {counted(len(results.cells), 'run')}, {done} of them done", soft_wrap=True)
    results.write()
    if not missing:
        return Ending(failed=(), interrupted=False)
    plans = [Plan(config=cell.config, folders=replace(folders, run=folders.run / cell.folder)) for cell in missing]
    failed = []
    with only_results():
        with console.status("starting"):
            runs = run_all(plans, jobs)
        with Board(results, console) as board, stop_on_signal(runs.stop, console):
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
                    board.ended(cell, event)
    return Ending(failed=tuple(failed), interrupted=len(results.missing) > len(failed))


def print_cells(results: GridResults) -> None:
    """Print every run, with its result and folder where it is done."""
    console = table_console()
    table = Table("run", "result", "folder", box=box.SIMPLE_HEAD)
    for cell in results.cells:
        run = results.run_of(cell)
        table.add_row(cell.name, result_of(results, cell), os.path.relpath(run.folder) if run else "")
    console.print(table)
    console.print(f"{counted(len(results.cells), 'run')}, {len(results.cells) - len(results.missing)} of them done")


def print_results(results: GridResults, ending: Ending) -> None:
    """Print the table, what it means, and where everything is."""
    console = table_console()
    console.print(table_of(results))
    for note in results.notes():
        console.print(note, soft_wrap=True)
    for name in ending.failed:
        console.print(f"failed: {name}", style="red")
    console.print(f"Results: {os.path.relpath(results.folder)}", soft_wrap=True)
    for file, meaning in FILES.items():
        console.print(f"  {file:<16} {meaning}", soft_wrap=True)


FILES = {
    "table.md": "this table",
    "table.csv": "its figures",
    "cells.csv": "one row per run",
    "*/config.toml": "repeats a run: fedgraph-sim run .../config.toml",
}
