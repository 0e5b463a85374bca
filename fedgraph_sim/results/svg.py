"""Matplotlib figures as SVG that lies in a page: text stays text, and colours follow the page's theme."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import count
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.4, 2.7
"""Inches of a figure, small enough that its text can be read on a phone."""

INK, FAINT = "#010101", "#010102"
SERIES = tuple(f"#0102{number:02x}" for number in range(10))
"""Stand-ins for the colours of the page: text and axes, grid lines, and the series of a plot."""
_VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)"} | {
    color: f"var(--series-{number})" for number, color in enumerate(SERIES)
}

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.use": True,
    "image.cmap": "viridis",
}
_numbers = count()


class Canvas:
    """A figure on which something is drawn; `svg` is the result, once the `drawing` is over."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.svg = ""

    def axes(self) -> Axes:
        """Return the one plot of the figure."""
        return self.figure.subplots()


@contextmanager
def drawing(width: float = WIDTH, height: float = HEIGHT) -> Iterator[Canvas]:
    """Draw on the figure of a canvas, inches wide and high."""
    style: Any = _STYLE | {"svg.hashsalt": f"figure-{next(_numbers)}"}  # so ids are unique in a page
    with rc_context(style):
        canvas = Canvas(Figure(figsize=(width, height)))
        yield canvas
        text = StringIO()
        canvas.figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        canvas.svg = inline(text.getvalue())


def plain(axes: Axes) -> Axes:
    """Take grid and frame away, for a picture."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def inline(svg: str) -> str:
    """Return an SVG file as an element of a page: no prologue, no fixed size, no ids but those that are used."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    used = set(re.findall(r"#([\w.-]+)[\")]", svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, variable)
    return re.sub(r"\n\s*", "\n", svg).strip()
