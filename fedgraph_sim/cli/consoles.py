"""Where commands write: what users name is printed as it is, never as markup or emoji."""

import sys

from rich.console import Console

PIPED_WIDTH = 160
"""Characters of a line of a table where there is no terminal whose width would count."""


def results_console() -> Console:
    """Return a console on standard output."""
    return Console(highlight=False, markup=False, emoji=False)


def table_console() -> Console:
    """Return a console on standard output for tables."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


def progress_console() -> Console:
    """Return a console on standard error, for progress and errors."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)
