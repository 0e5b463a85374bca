"""The sections of a report: what is in a run's folder decides which of them a run has, never its algorithm."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedgraph_sim.engine.files import CONFIG_FILE
from fedgraph_sim.engine.matrices import MISSING_EDGES
from fedgraph_sim.engine.metrics import says_nothing_new
from fedgraph_sim.engine.schema import METRIC, TABLES
from fedgraph_sim.results import plots
from fedgraph_sim.results.client_matrices import matrices_of, reading_order, recorded, some_rounds
from fedgraph_sim.results.metrics import LOSS, PARTS, scale, titled
from fedgraph_sim.results.run_folder import RunFolder

FORECAST_KEYS = {column.name for column in TABLES["forecasts"] if column.name != METRIC}
FIXED = {column.name for column in TABLES["rounds"] if column.name != METRIC}
TIME_PARTS = {
    "compute": "client steps, in the slowest actor",
    "transport": "calls to the actors, and the sums over their clients",
    "server": "the algorithm's own work",
    "evaluation": "of all clients, or of the global model",
}
NUM_FORECASTS = 6


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A plot with what has to be known to read it; `wide` ones take a whole row."""

    title: str
    svg: str
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class SortableTable:
    """Rows of text and numbers; numbers are printed by `printed`."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page: a note, figures, a table, lines of code."""

    title: str
    note: str = ""
    figures: Sequence[Figure] = ()
    table: SortableTable | None = None
    code: Sequence[tuple[str, str]] = field(default=())


def sections_of(run: RunFolder) -> list[Section]:
    """Return what there is to show of a run."""
    makers = (_training, _comparisons_of_clients, _other_measures, _forecasts, _partition, _clients, _time, _repeat)
    return [section for make in makers for section in make(run)]


def _training(run: RunFolder) -> Iterator[Section]:
    rounds = run.rounds
    metrics = dict.fromkeys([run.metric, LOSS, *_metrics(rounds)])
    figures = [
        Figure(title=metric.replace("_", " "), svg=plots.curves(rounds, run.clients, metric, run.best_round))
        for metric in metrics
        if _has(rounds, metric)
    ]
    if not figures:
        return
    if run.num_bytes and _has(rounds, run.metric):
        part = next(part for part in ("test", "val", "train") if f"{part}_{run.metric}" in rounds)
        curve = {plots.NAMES[part]: [rounds]}
        svg = plots.overlay(curve, f"{part}_{run.metric}", run.metric, against_bytes=True)
        figures.append(Figure(title=f"{run.metric.replace('_', ' ')} against bytes", svg=svg))
    low, high = (f"{100 * quantile:.0f}" for quantile in plots.QUANTILES)
    band = f" The band holds the clients between the {low} and {high} % quantile (test)." if len(run.clients) else ""
    yield Section(
        title="Training",
        note=f"Lines are the protocol's figure ({run.get('evaluation.protocol')}).{band} The dotted line is the round "
        "of the best validation figure.",
        figures=figures,
    )


def _comparisons_of_clients(run: RunFolder) -> Iterator[Section]:
    found = matrices_of(run.matrices, run.num_clients)
    for name, by_round in recorded(found).items():
        last = by_round[max(by_round)]
        order = reading_order(last)
        shown = {f"round {round}": matrix for round, matrix in some_rounds(by_round).items()}
        figures = [
            Figure(title=f"{_words(name)} over rounds", svg=plots.matrices(shown, order, _words(name)), wide=True)
        ]
        for own, matrices in found.items():
            if max(matrices) == 0:
                figures.append(Figure(title=_words(own), svg=plots.matrices({"": matrices[0]}, order, "")))
        yield Section(
            title=f"{_words(name).capitalize()} of clients",
            note="Rows and columns are clients, ordered so that those alike in the last round are neighbours; the "
            "order is the same in all pictures of this section. Each picture has its own scale.",
            figures=figures,
        )


def _other_measures(run: RunFolder) -> Iterator[Section]:
    """Show every further column of ``rounds.parquet``, those of one kind (the last word of the name) in one plot."""
    kinds: dict[str, dict[str, str]] = {}
    for column in run.rounds.columns:
        if column not in FIXED and not column.startswith(tuple(f"{part}_" for part in PARTS)):
            name, _, kind = column.rpartition("_")
            if run.rounds[column].notna().any():
                kinds.setdefault(kind, {})[column] = _words(name or kind)
    if kinds:
        figures = [
            Figure(title=_words(kind), svg=plots.measures(run.rounds, columns, kind)) for kind, columns in kinds.items()
        ]
        yield Section(title="Measured by the algorithm", note="Means by the run's protocol.", figures=figures)


def _forecasts(run: RunFolder) -> Iterator[Section]:
    forecasts = run.forecasts
    if not len(forecasts):
        return
    curves = [name for name in forecasts.columns if name not in FORECAST_KEYS]
    groups = list(forecasts.groupby("sensor"))
    chosen = np.unique(np.linspace(0, len(groups) - 1, min(NUM_FORECASTS, len(groups))).round().astype(int))
    figures = [
        Figure(title=f"sensor {groups[index][0]}", svg=plots.forecasts(groups[index][1], curves)) for index in chosen
    ]
    round, errors = int(forecasts["round"].iloc[0]), f"test_{run.metric}"
    steps = run.steps[run.steps["round"] == round] if errors in run.steps else run.steps[:0]
    if len(steps):
        svg = plots.steps(steps, errors, run.metric)
        figures.insert(0, Figure(title=f"test {_words(run.metric)} by step ahead", svg=svg))
    note = f"{len(chosen)} of {len(groups)} sensors: the last step ahead of each window of the test, at round {round}."
    yield Section(title="Forecasts", note=note, figures=figures)


def _partition(run: RunFolder) -> Iterator[Section]:
    info = run.partition
    figures = []
    if {"nodes", *PARTS} <= info.keys():
        figures.append(Figure(title="client sizes", svg=plots.sizes(info)))
    if info.get("num_classes"):
        figures.append(Figure(title="label distribution", svg=plots.labels(info["class_counts"])))
    is_drawn = len(run.matrices) and (run.matrices["name"] == MISSING_EDGES).any()
    if info.get("cut") is not None and info["num_clients"] > 1 and not is_drawn:
        cut = np.array(info["cut"], float)
        svg = plots.matrices({"": cut}, range(len(cut)), "directed edges")
        figures.append(Figure(title="edges cut between clients", svg=svg))
    if info:
        yield Section(title="Partition", note=_described(info), figures=figures)


def _described(info: Mapping[str, Any]) -> str:
    counts = ("num_nodes", "num_edges", "num_features", "num_classes", "num_clients")
    sizes = ", ".join(f"{info[name]} {name.removeprefix('num_')}" for name in counts if name in info)
    text = f"{info.get('dataset', '')}: {sizes}, by {info.get('partition', '')}."
    if info.get("num_edges"):
        lost = info["edges_lost"]
        share = f"{lost} edges ({100 * lost / info['num_edges']:.1f} %) are in no client."
        text += f" {share}" if lost < info["num_edges"] else " All edges are between clients."
    return text


def _clients(run: RunFolder) -> Iterator[Section]:
    numbers = list(range(run.num_clients))
    columns: dict[str, Sequence[Any]] = {"client": numbers}
    for name, values in run.partition.items():
        if isinstance(values, list) and len(values) == len(numbers) and all(isinstance(each, int) for each in values):
            columns[name] = values
    if run.partition.get("num_classes"):
        columns["classes"] = [sum(count > 0 for count in counts) for counts in run.partition["class_counts"]]
    columns |= _values_at_best_round(run, numbers) | _traffic(run, numbers)
    note = f"Values at round {run.best_round}, the best by validation; bytes of all rounds. A click on a heading sorts."
    yield Section(
        title="Clients",
        note="" if run.best_round is None else note,
        table=SortableTable(head=list(columns), rows=list(zip(*columns.values(), strict=True))),
    )


def _values_at_best_round(run: RunFolder, numbers: Sequence[int]) -> dict[str, Sequence[Any]]:
    if not len(run.clients):
        return {}
    best = run.clients[run.clients["round"] == run.best_round].set_index("client")
    return {
        titled(part, run.metric): (scale(run.metric) * best[f"{part}_{run.metric}"]).reindex(numbers).tolist()
        for part in ("val", "test")
        if f"{part}_{run.metric}" in best
    }


def _traffic(run: RunFolder, numbers: Sequence[int]) -> dict[str, Sequence[Any]]:
    if not len(run.ledger):
        return {}
    trained = run.ledger[run.ledger["kind"] == "train"]
    return {
        name: (trained.groupby(column)["bytes"].sum() / 1e6).reindex(numbers, fill_value=0.0).tolist()
        for name, column in (("MB up", "sender"), ("MB down", "receiver"))
    }


def _time(run: RunFolder) -> Iterator[Section]:
    if not len(run.rounds):
        return
    rounds = run.rounds
    median = rounds[1:].median(numeric_only=True) if len(rounds) > 1 else rounds.median(numeric_only=True)
    rows = [
        (
            part,
            meaning,
            1000 * median[f"seconds_{part}"],
            100 * median[f"seconds_{part}"] / max(median["seconds"], 1e-9),
        )
        for part, meaning in TIME_PARTS.items()
    ]
    seconds = run.summary.get("seconds", {})
    note = "A round's wall-clock time, the first round left out."
    if seconds:
        note += (
            f" In all: {seconds['startup']:.1f} s start-up, {seconds['partition']:.1f} s data and partition, "
            f"{seconds['train']:.1f} s training."
        )
    yield Section(
        title="Time",
        note=note,
        figures=[Figure(title="parts of a round", svg=plots.seconds(rounds, TIME_PARTS))],
        table=SortableTable(head=("part", "of what", "ms, median", "% of a round"), rows=rows),
    )


def _repeat(run: RunFolder) -> Iterator[Section]:
    path = os.path.relpath(run.folder / CONFIG_FILE)
    versions = run.summary.get("versions", {})
    code = [("Repeat it", f"fedgraph-sim run {path} --name {run.name}-again")]
    code.append((CONFIG_FILE, (run.folder / CONFIG_FILE).read_text(encoding="utf-8")))
    if versions:
        code.append(("Versions", "\n".join(f"{name} {version}" for name, version in versions.items())))
    yield Section(
        title="Configuration",
        note="The resolved configuration; with the same file the run gives the same numbers. Folders of raw data are "
        "no part of it.",
        code=code,
    )


def _metrics(rounds: pd.DataFrame) -> list[str]:
    """Return the metrics of training, validation and test; a masked one only where readings are missing."""
    last = rounds.ffill().tail(1).to_dict("records")
    return [
        name.partition("_")[2]
        for name in rounds.columns
        if name.startswith(tuple(f"{part}_" for part in PARTS))
        and not any(says_nothing_new(name, row[name], row) for row in last)
    ]


def _has(rounds: pd.DataFrame, metric: str) -> bool:
    return any(f"{part}_{metric}" in rounds and rounds[f"{part}_{metric}"].notna().any() for part in PARTS)


def _words(name: str) -> str:
    return name.replace("_", " ")
