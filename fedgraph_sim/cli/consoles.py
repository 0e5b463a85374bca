"""Where commands write: what users name is printed as it is, never as markup or emoji."""

import os
import sys

from rich.console import Console

PIPED_WIDTH = 160
"""Characters of a line of a table where there is no terminal whose width would count."""


class _Console(Console):
    """A console whose reader may go away, as `head` does: the run goes on, and its results are in its folder."""

    def on_broken_pipe(self) -> None:
        """Print nothing any more, and leave nothing for the end of the process to print."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def results_console() -> Console:
    """Return a console on standard output."""
    return _Console(highlight=False, markup=False, emoji=False)


def table_console() -> Console:
    """Return a console on standard output for tables."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return _Console(highlight=False, markup=False, emoji=False, width=width)


def progress_console() -> Console:
    """Return a console on standard error, for progress and errors."""
    return _Console(stderr=True, highlight=False, markup=False, emoji=False)
