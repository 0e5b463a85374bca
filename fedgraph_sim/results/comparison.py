"""Runs beside each other: one line per setting (`compare`), or a table by keys of the configuration (`tabulate`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from fedgraph_sim.counts import counted
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results.metrics import titled, unit
from fedgraph_sim.results.run_folder import RunFolder
from fedgraph_sim.results.scores import SIGNIFICANT, Score, ranked, score_of
from fedgraph_sim.results.settings import Setting, by_setting, differing_keys, setting_of, telling_keys, value_of

PAIRING = ("dataset.", "split.", "data_seed", "evaluation.")
"""Begin of the keys that two settings must share for their seeds to pair."""

MAX_KEYS = 5
"""Columns of keys that are shown in any case; of more, parameters of the algorithm only where they tell runs apart."""
MAX_NAMES = 5
"""Names of runs in a note."""

Cell = str | Score | None


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """Text and scores; `num_keys` columns at the left name a row. `notes` say what has to be known to read it."""

    metric: str
    head: tuple[str, ...]
    num_keys: int
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]


def compare(runs: Sequence[RunFolder], metric: str | None = None) -> ResultTable:
    """Return one row per setting: what differs, the test metric over seeds, traffic and time of a run."""
    given = runs
    runs, metric = _of_one_metric(given, metric)
    groups = by_setting(runs)
    settings = list(groups)
    keys = differing_keys(settings)
    if not keys:
        keys = ["algorithm"]
    elif len(settings) > 1 and "algorithm" not in keys:
        keys = ["algorithm", *keys]
    shown = keys if len(keys) <= MAX_KEYS else telling_keys(settings, keys)
    pairable = len({_pairing(setting) for setting in settings}) == 1
    scores = [score_of(group, "test", metric) for group in groups.values()]
    scores = ranked(scores, metric) if pairable else scores
    rows = tuple(
        (*(value_of(setting, key) for key in shown), _seeds(group), score, _p(score), *_costs(group))
        for (setting, group), score in zip(groups.items(), scores, strict=True)
    )
    head = (*shown, "seeds", titled("test", metric), "p", "best round", "MB sent", "ms per round")
    notes = [*_notes(runs, metric, scores), *_left_out(given, runs, metric)]
    if not pairable:
        notes.append("nothing is marked: the runs are on different data or splits, or of different protocols")
    if len(shown) < len(keys):
        notes.append(f"not shown, though it differs: {', '.join(key for key in keys if key not in shown)}")
    table = ResultTable(metric=metric, head=head, num_keys=len(shown), rows=rows, notes=tuple(notes))
    return table if any(_p(score) for score in scores) else _without(table, "p")


def tabulate(
    runs: Sequence[RunFolder], *, rows: Sequence[str], columns: Sequence[str], metric: str | None = None
) -> ResultTable:
    """Return the test metric over seeds by keys of the configuration: `rows` downwards, `columns` across.

    Raises:
        ConfigError: where no run has a key, or where a cell holds runs that differ in more than their seed.
    """
    given = runs
    runs, metric = _of_one_metric(given, metric)
    for key in (*rows, *columns):
        if all(run.get(key) is None for run in runs):
            raise ConfigError(
                f"no run has the key {key}; keys are those of config.toml, such as algorithm or algorithm.lr"
            )
    cells: dict[tuple[str, ...], dict[tuple[str, ...], list[RunFolder]]] = {}
    across: dict[tuple[str, ...], None] = {}
    for run in runs:
        setting = setting_of(run)
        row, column = (tuple(value_of(setting, key) for key in keys) for keys in (rows, columns))
        across[column] = None
        cells.setdefault(row, {}).setdefault(column, []).append(run)
    found = [
        [_cell(by_column.get(column, []), (*row, *column), metric) for column in across]
        for row, by_column in cells.items()
    ]
    marked = _marked(found, metric)
    head = (*rows, *(" ".join(filter(None, column)) or titled("test", metric) for column in across))
    lines = tuple((*row, *scores) for row, scores in zip(cells, marked, strict=True))
    notes = [*_notes(runs, metric, [score for row in marked for score in row]), *_left_out(given, runs, metric)]
    return ResultTable(metric=metric, head=head, num_keys=len(rows), rows=lines, notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """The score of one cell of a table, and what must be equal for its seeds to pair with those of another."""

    score: Score | None
    pairing: Setting


def _cell(group: Sequence[RunFolder], names: Sequence[str], metric: str) -> _Measured | None:
    settings = list(by_setting(group))
    if len(settings) > 1:
        raise ConfigError(
            f"runs of {', '.join(names)} differ in {', '.join(differing_keys(settings))}: add one of these to --rows "
            "or --columns, or name fewer runs"
        )
    return _Measured(score=score_of(group, "test", metric), pairing=_pairing(settings[0])) if settings else None


def _marked(cells: Sequence[Sequence[_Measured | None]], metric: str) -> list[list[Score | None]]:
    """Return the scores, marked in each column, or in each row if only there all are on the same data."""

    def lines(rows: Sequence[Sequence[_Measured | None]]) -> list[list[Score | None]] | None:
        if any(len({cell.pairing for cell in row if cell is not None}) > 1 for row in rows):
            return None
        return [ranked([_score(cell) for cell in row], metric) for row in rows]

    by_column = lines(list(zip(*cells, strict=True))) if len(cells) > 1 else None
    if by_column is not None:
        return [list(row) for row in zip(*by_column, strict=True)]
    return lines(cells) or [[_score(cell) for cell in row] for row in cells]


def _score(cell: _Measured | None) -> Score | None:
    return None if cell is None else cell.score


def _of_one_metric(runs: Sequence[RunFolder], metric: str | None) -> tuple[list[RunFolder], str]:
    """Return the completed runs that are judged by the metric, by default that of the first."""
    completed = [run for run in runs if run.status == "completed"]
    if not completed:
        raise ConfigError(
            f"none of {counted(len(runs), 'run')} is completed; `fedgraph-sim report` shows runs that are not"
        )
    metric = metric or completed[0].metric
    chosen = [run if run.metric == metric else _judged_by(run, metric) for run in completed]
    known = [run for run in chosen if run is not None]
    if not known:
        raise ConfigError(f"no run has test_{metric}; they have {', '.join(sorted({run.metric for run in completed}))}")
    return known, metric


def _left_out(given: Sequence[RunFolder], kept: Sequence[RunFolder], metric: str) -> list[str]:
    """Say which runs are not in a table, and why."""
    folders = {run.folder for run in kept}
    reasons: dict[str, list[str]] = {}
    for run in given:
        if run.folder not in folders:
            why = f"without test {metric.replace('_', ' ')}" if run.status == "completed" else "not completed"
            reasons.setdefault(why, []).append(run.name)
    return [f"left out: {_some(names)} ({why})" for why, names in reasons.items()]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"


def _judged_by(run: RunFolder, metric: str) -> RunFolder | None:
    """Return the run with another metric of its rounds as the one that counts; its best round stays."""
    if f"test_{metric}" not in run.rounds:
        return None
    other = replace(run)
    other.__dict__["metric"] = metric
    return other


def _pairing(setting: Setting) -> Setting:
    return tuple((key, value) for key, value in setting if key.startswith(PAIRING))


def _notes(runs: Sequence[RunFolder], metric: str, scores: Sequence[Score | None]) -> list[str]:
    protocols = dict.fromkeys(str(run.get("evaluation.protocol")) for run in runs)
    in_unit = " in per cent" if unit(metric) == "%" else ""
    notes = [
        f"test {metric.replace('_', ' ')}{in_unit} (protocol {', '.join(protocols)}) at the round of each run's own "
        "best validation value; mean ± population standard deviation over seeds"
    ]
    if any(score is not None and score.best for score in scores):
        notes[0] += "; best in bold"
    if any(score is not None and score.p is not None for score in scores):
        notes.append(
            f"†: differs from the best, p < {SIGNIFICANT:g} in a two-sided paired t-test over common seeds, adjusted "
            "by Holm for the number of comparisons"
        )
    return notes


def _seeds(group: Sequence[RunFolder]) -> str:
    seeds = sorted({int(run.get("seed")) for run in group})
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def _p(score: Score | None) -> str:
    return "" if score is None or score.p is None else f"{score.p:.3f}" if score.p >= 0.001 else "< 0.001"


def _costs(group: Sequence[RunFolder]) -> tuple[str, str, str]:
    rounds = [run.best_round for run in group if run.best_round is not None]
    milliseconds = [1000 * float(run.rounds["seconds"].median()) for run in group if len(run.rounds)]
    return (
        f"{median(rounds):g}" if rounds else "",
        f"{fmean(run.num_bytes for run in group) / 1e6:.1f}",
        f"{fmean(milliseconds):.1f}" if milliseconds else "",
    )


def _without(table: ResultTable, column: str) -> ResultTable:
    index = table.head.index(column)
    rows = tuple((*row[:index], *row[index + 1 :]) for row in table.rows)
    return replace(table, head=(*table.head[:index], *table.head[index + 1 :]), rows=rows)
