"""Shows a grid while its runs are under way."""

import time
from datetime import timedelta

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedgraph_sim.cli.cells import Cell
from fedgraph_sim.cli.grid_results import GridResults, printed
from fedgraph_sim.engine.report import Outcome


class Board:
    """Shows the runs under way on standard error: bars and the table so far on a terminal, and a line for each end."""

    def __init__(self, results: GridResults, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._results = results
        self._console = console
        self._bars = Progress(*columns, console=console)
        missing = results.missing
        self._all = self._bars.add_task("rounds of all runs", total=sum(cell.config.num_rounds for cell in missing))
        self._live = Live(self._shown(), console=console, transient=True)
        self._each: dict[str, TaskID] = {}
        self._begin: dict[str, float] = {}
        self._num_cells = len(missing)
        self._num_ended = 0

    def __enter__(self) -> "Board":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def started(self, cell: Cell) -> None:
        """Add a bar for a run."""
        self._begin[cell.name] = time.monotonic()
        self._each[cell.name] = self._bars.add_task(cell.name, total=cell.config.num_rounds)

    def advanced(self, cell: Cell) -> None:
        """Count a round of a run."""
        self._bars.advance(self._all)
        self._bars.advance(self._each[cell.name])

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        """Replace the run's bar by a line, and bring the table up to date."""
        self._num_ended += 1
        seconds = 0.0
        if cell.name in self._each:
            self._bars.remove_task(self._each.pop(cell.name))
            seconds = time.monotonic() - self._begin[cell.name]
        shown = result_of(self._results, cell) if outcome.status == "completed" else outcome.status
        left = self._bars.tasks[0].time_remaining
        line = f"{self._num_ended}/{self._num_cells}  {cell.name}  {shown}  {seconds:.1f} s"
        line += f"  {timedelta(seconds=round(left))} left" if left else ""
        self._console.print(line, soft_wrap=True)
        if outcome.details:
            self._console.print(outcome.details)
        if outcome.error:
            self._console.print(f"Error: {outcome.error}", style="red", soft_wrap=True)
        self._live.update(self._shown())

    def _shown(self) -> Group:
        return Group(self._bars, table_of(self._results))


def table_of(results: GridResults) -> Table:
    """Return what the grid has come to so far."""
    table = Table(*results.head, box=box.SIMPLE_HEAD)
    for row in results.table():
        table.add_row(*row)
    return table


def result_of(results: GridResults, cell: Cell) -> str:
    """Return what a run came to."""
    if results.run_of(cell) is None:
        return "to do"
    value = results.test(cell)
    return "not available" if value is None else f"{printed((value,))} {results.unit}".rstrip()
