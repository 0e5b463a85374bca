"""The plots of a report; each function returns one SVG element."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedgraph_sim.results.metrics import is_share, scale
from fedgraph_sim.results.svg import HEIGHT, INK, SERIES, WIDTH, drawing, plain

QUANTILES = (0.1, 0.9)
"""Clients between which a band lies."""
PARTS = {"train": SERIES[2], "val": SERIES[1], "test": SERIES[0]}
NAMES = {"train": "training", "val": "validation", "test": "test"}

MANY_CLIENTS = 100
LINES = ("-", "--", ":")
"""Of the runs of a plot, ten each."""

Matrix = NDArray[np.float64]


def curves(rounds: pd.DataFrame, clients: pd.DataFrame, metric: str, best_round: int | None) -> str:
    """Return the mean of a metric over rounds on all parts, and the band of the clients on the test part."""
    with drawing() as canvas:
        axes = canvas.axes()
        if f"test_{metric}" in clients:
            values = clients.groupby("round")[f"test_{metric}"].quantile(QUANTILES).unstack()
            low, high = (scale(metric) * values[quantile] for quantile in QUANTILES)
            axes.fill_between(values.index, low, high, color=SERIES[0], alpha=0.18, linewidth=0)
        for part, color in PARTS.items():
            known = rounds[["round", f"{part}_{metric}"]].dropna() if f"{part}_{metric}" in rounds else rounds[:0]
            if len(known):
                values = scale(metric) * known[f"{part}_{metric}"]
                axes.plot(known["round"], values, color=color, label=NAMES[part], marker=_marker(known))
        if best_round is not None:
            axes.axvline(best_round, color=INK, linewidth=0.8, linestyle=":")
        _rounds(axes, metric)
        axes.legend(loc="best")
    return canvas.svg


def overlay(
    series: Mapping[str, Sequence[pd.DataFrame]], column: str, metric: str, *, against_bytes: bool = False
) -> str:
    """Return a column of ``rounds.parquet`` over rounds, or over the bytes sent until then: one curve per name.

    Of several tables (of one setting with several seeds) the mean is shown, and their range as a band.
    """
    with drawing() as canvas:
        axes = canvas.axes()
        for number, (name, tables) in enumerate(series.items()):
            known = [rounds.dropna(subset=[column]) for rounds in tables if column in rounds]
            if not any(map(len, known)):
                continue
            color, dashes = SERIES[number % len(SERIES)], LINES[number // len(SERIES) % len(LINES)]
            values = scale(metric) * pd.concat([rounds.set_index("round")[column] for rounds in known], axis=1)
            sent = pd.concat([_megabytes(rounds) for rounds in tables], axis=1).mean(axis=1)
            x = sent[values.index] if against_bytes else values.index
            axes.plot(x, values.mean(axis=1), label=name, marker=_marker(values), color=color, linestyle=dashes)
            if len(known) > 1:
                low, high = values.min(axis=1), values.max(axis=1)
                axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
        _rounds(axes, metric)
        if against_bytes:
            axes.set_xlabel("MB sent until then, up and down")
        if len(series) <= len(SERIES):
            axes.legend(loc="best")
    return canvas.svg


def measures(rounds: pd.DataFrame, columns: Mapping[str, str], kind: str) -> str:
    """Return columns of ``rounds.parquet`` that are of one kind over rounds, under the given names."""
    with drawing() as canvas:
        axes = canvas.axes()
        for number, (column, name) in enumerate(columns.items()):
            known = rounds[["round", column]].dropna()
            color = SERIES[number % len(SERIES)]
            axes.plot(known["round"], scale(kind) * known[column], label=name, color=color, marker=_marker(known))
        _rounds(axes, kind)
        axes.legend(loc="best")
    return canvas.svg


def sizes(partition: Mapping[str, Sequence[int]]) -> str:
    """Return the numbers of nodes of each client by part; of many clients as an area, largest first."""
    nodes = np.array(partition["nodes"])
    parts = {NAMES[part]: np.array(partition[part]) for part in PARTS}
    colors = list(PARTS.values())
    rest = nodes - sum(parts.values())
    if rest.any():
        parts, colors = parts | {"no part": rest}, [*colors, SERIES[7]]
    with drawing() as canvas:
        axes = canvas.axes()
        if len(nodes) > MANY_CLIENTS:
            rank = np.linspace(0, len(nodes) - 1, MANY_CLIENTS).round().astype(int)
            chosen = np.argsort(-nodes, kind="stable")[rank]
            stack = [counts[chosen] for counts in parts.values()]
            axes.stackplot(rank, stack, labels=list(parts), colors=colors, linewidth=0, step="mid")
            axes.set_xlabel("clients, largest first")
        else:
            below = np.zeros(len(nodes))
            for (name, counts), color in zip(parts.items(), colors, strict=True):
                axes.bar(np.arange(len(nodes)), counts, bottom=below, color=color, label=name, width=0.8)
                below = below + counts
            axes.set_xlabel("client")
        axes.set_ylabel("nodes")
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(0, nodes.max() * 1.25)
        axes.legend(ncols=4, loc="upper center", columnspacing=1, handlelength=1)
    return canvas.svg


def labels(class_counts: Sequence[Sequence[int]]) -> str:
    """Return the shares of the classes in each client's labelled nodes."""
    counts = np.array(class_counts, float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with drawing() as canvas:
        axes = plain(canvas.axes())
        image = axes.imshow(shares, aspect="auto", vmin=0, interpolation="none")
        axes.set_xlabel("class")
        axes.set_ylabel("client")
        _integers(axes)
        canvas.figure.colorbar(image, ax=axes, label="% of the client's nodes").outline.set_visible(False)
    return canvas.svg


def matrices(values: Mapping[str, Matrix], order: Sequence[int], label: str) -> str:
    """Return pictures of matrices [num_clients, num_clients], rows and columns in the given order.

    Each has its own scale, from the smallest to the largest number off the diagonal: what matters is who is closer to
    whom, and in later rounds all may be close.
    """
    columns = min(len(values), 3)
    rows = -(-len(values) // columns)
    wide = columns > 1
    with drawing(WIDTH * 1.7, WIDTH * 0.6 * rows) if wide else drawing(height=HEIGHT * 1.3) as canvas:
        grid = canvas.figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(values) :]:
            axes.set_axis_off()
        for axes, (title, matrix) in zip(grid, values.items(), strict=False):
            low, high = _range(matrix)
            shown = matrix[np.ix_(order, order)]
            image = plain(axes).imshow(shown, vmin=low, vmax=high, interpolation="none")
            axes.set_title(f"{title}: {low:.3g} to {high:.3g}" if title else "")
            _client_ticks(axes, order)
        bar = canvas.figure.colorbar(image, ax=list(grid), label=label, shrink=0.8)
        bar.outline.set_visible(False)
        if wide:
            bar.set_ticks(list(image.get_clim()), labels=["low", "high"])
    return canvas.svg


def steps(table: pd.DataFrame, column: str, metric: str) -> str:
    """Return a metric by how many steps ahead is predicted."""
    with drawing() as canvas:
        axes = canvas.axes()
        axes.plot(table["step"], scale(metric) * table[column], color=SERIES[0], marker=".")
        _rounds(axes, metric)
        axes.set_xlabel("steps ahead")
    return canvas.svg


def forecasts(series: pd.DataFrame, curves: Sequence[str]) -> str:
    """Return the named columns over the column `time`: what was read first, then predictions."""
    with drawing() as canvas:
        axes = canvas.axes()
        for number, name in enumerate(curves):
            color = INK if number == 0 else SERIES[(number - 1) % len(SERIES)]
            axes.plot(series["time"], series[name], color=color, label=name.replace("_", " "), linewidth=1)
        axes.set_xlabel("time step")
        axes.legend(loc="best")
    return canvas.svg


def seconds(rounds: pd.DataFrame, parts: Mapping[str, str]) -> str:
    """Return where the time of each round went, as a stack of the columns ``seconds_<part>``."""
    with drawing() as canvas:
        axes = canvas.axes()
        later = rounds[1:] if len(rounds) > 1 else rounds  # the first one warms up
        stack = [1000 * later[f"seconds_{part}"].rolling(_window(later), min_periods=1).median() for part in parts]
        axes.stackplot(later["round"], stack, labels=list(parts), colors=SERIES[: len(parts)], linewidth=0)
        axes.set_xlabel("round")
        axes.set_ylabel("ms, running median")
        axes.set_ylim(0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="best")
    return canvas.svg


def _rounds(axes: Axes, metric: str) -> None:
    axes.set_xlabel("round")
    axes.set_ylabel(f"{metric.replace('_', ' ')}{' in %' if is_share(metric) else ''}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _megabytes(rounds: pd.DataFrame) -> pd.Series:
    return (rounds.set_index("round")[["bytes_up", "bytes_down"]].sum(axis=1)).cumsum() / 1e6


def _marker(rounds: pd.DataFrame) -> str:
    """Return a marker where points are few, so that a single one can be seen."""
    return "." if len(rounds) < 15 else ""


def _window(rounds: pd.DataFrame) -> int:
    return max(5, len(rounds) // 10)


def _range(matrix: Matrix) -> tuple[float, float]:
    """Return the smallest and the largest number off the diagonal."""
    numbers = matrix[~np.eye(len(matrix), dtype=bool) & np.isfinite(matrix)]
    return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)


def _integers(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _client_ticks(axes: Axes, order: Sequence[int]) -> None:
    """Write the clients' numbers beside rows and columns, as far as there is room."""
    if len(order) <= 12:
        axes.set_xticks(range(len(order)), [str(client) for client in order], fontsize=6)
        axes.set_yticks(range(len(order)), [str(client) for client in order], fontsize=6)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
