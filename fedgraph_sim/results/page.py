"""A report: one HTML page that needs nothing but itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from fedgraph_sim import __version__
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results import plots
from fedgraph_sim.results.comparison import compare
from fedgraph_sim.results.metrics import scaled, titled, unit
from fedgraph_sim.results.run_folder import RunFolder
from fedgraph_sim.results.sections import Figure, Section, SortableTable, sections_of
from fedgraph_sim.results.settings import by_setting, differing_keys, value_of
from fedgraph_sim.results.table_formats import text_of

MANY_RUNS = 6
"""Runs up to which each has its own part of the page: a page of a large sweep would be slow to write and to read."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A run on the page: its headline figures, and its sections."""

    title: str
    status: str
    error: str
    tiles: Sequence[tuple[str, str]]
    sections: Sequence[Section]


def report_page(runs: Sequence[RunFolder]) -> str:
    """Return the page of one run, or of several beside each other; of many each one's details are left out."""
    detailed = runs if len(runs) <= MANY_RUNS else []
    parts = [
        Part(
            title=run.name,
            status=run.status,
            error=run.summary.get("error", ""),
            tiles=list(_tiles(run)),
            sections=sections_of(run),
        )
        for run in detailed
    ]
    environment = Environment(
        loader=PackageLoader("fedgraph_sim.results", "templates"),
        autoescape=select_autoescape(["html", "jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"printed": printed, "raw": Markup}
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    overview = _overview(runs) if len(runs) > 1 else []
    template = environment.get_template("page.html.jinja")
    return template.render(title=title, parts=parts, overview=overview, version=__version__)


def write_report(runs: Sequence[RunFolder], file: Path) -> None:
    """Write the page of some runs to a file. Raises `ConfigError` where that is not possible."""
    try:
        file.write_text(report_page(runs), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}; choose another --html") from error


def printed(value: Any) -> str:
    """Return a cell of a table as text: two decimals, nothing where there is no value."""
    if value is None or value != value:  # NaN
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _tiles(run: RunFolder) -> Iterator[tuple[str, str]]:
    best = run.best_round
    for part in ("test", "val"):
        value = run.at_best_round(part)
        if value is not None:
            shown = f"{scaled(run.metric, value):.2f} {unit(run.metric)}".strip()
            yield f"{plots.NAMES[part]} {run.metric.replace('_', ' ')}, round {best}", shown
    yield "algorithm", str(run.get("algorithm"))
    yield "data", str(run.get("dataset"))
    yield "clients", str(run.num_clients)
    done, planned = len(run.rounds), run.get("rounds") or 0
    yield "rounds", str(done) if done >= planned else f"{done} of {planned}"
    yield "sent, up and down", _bytes(run.num_bytes)
    if len(run.rounds):
        seconds = run.rounds["seconds"].median()
        yield "a round takes", f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _overview(runs: Sequence[RunFolder]) -> list[Section]:
    """Return what is shown of several runs together: curves by setting, the comparison, and a line for each run."""
    metric = runs[0].metric
    column, name = f"test_{metric}", metric.replace("_", " ")
    plot = partial(plots.overlay, _by_name(runs))
    figures = [
        Figure(title=f"test {other.replace('_', ' ')}", svg=plot(f"test_{other}", other))
        for other in dict.fromkeys([metric, "loss", "mae"])
        if any(f"test_{other}" in run.rounds for run in runs)
    ]
    figures.append(Figure(title=f"test {name} against bytes", svg=plot(column, metric, against_bytes=True)))
    note = "One line per setting: the mean over its seeds, in a band from the lowest to the highest of them."
    sections = [Section(title="Comparison", note=note, figures=figures)]
    if sum(run.status == "completed" for run in runs) > 1:
        table = compare(runs)
        shown = SortableTable(head=table.head, rows=text_of(table, bold="{} (best)"))
        notes = ". ".join(each.replace("; best in bold", "") for each in table.notes)
        sections.append(Section(title="Means over seeds", note=f"{notes[:1].upper()}{notes[1:]}.", table=shown))
    return [*sections, _all_runs(runs, metric)]


def _by_name(runs: Sequence[RunFolder]) -> dict[str, list[Any]]:
    """Return the tables of rounds of each setting, under the values in which the settings differ; or of each run."""
    groups = by_setting([run for run in runs if len(run.rounds)])
    keys = differing_keys(list(groups))
    if len(groups) == len(runs) or not keys:
        return {run.name: [run.rounds] for group in groups.values() for run in group}
    return {
        ", ".join(filter(None, (value_of(setting, key) for key in keys))): [run.rounds for run in group]
        for setting, group in groups.items()
    }


def _all_runs(runs: Sequence[RunFolder], metric: str) -> Section:
    is_mixed = any(run.metric != metric for run in runs)
    test = ("judged by", "test") if is_mixed else (titled("test", metric),)
    head = ("run", "algorithm", "data", "clients", "seed", "status", *test, "at round", "MB sent")
    rows = [
        (
            run.name,
            run.get("algorithm"),
            run.get("dataset"),
            run.num_clients,
            run.get("seed"),
            run.status,
            *((titled("", run.metric),) if is_mixed else ()),
            _optional(partial(scaled, run.metric), run.at_best_round("test")),
            run.best_round,
            run.num_bytes / 1e6,
        )
        for run in runs
    ]
    note = "Test figures are those at each run's own best validation round. A click on a heading sorts."
    if len(runs) > MANY_RUNS:
        note += " A page of one of them alone shows its details."
    return Section(title="All runs", note=note, table=SortableTable(head=head, rows=rows))


def _optional(function: Any, value: float | None) -> float | None:
    return None if value is None else function(value)


def _bytes(count: float) -> str:
    for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {name}"
    return f"{count:.0f} B"
