"""The tables of a run that is to go on: whether they can be gone on with, and the reports that they hold."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.growing_table import rows_until
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.schema import column_of
from fedgraph_sim.errors import ConfigError

PLAIN = [field.name for field in fields(RoundReport) if field.name != "evaluation"]
"""Parts of a report that are a column each."""
GROWING = ("clients", "matrices", "steps", "ledger")
"""Tables that grow by rows for clients, pairs of clients, steps or messages, and are not kept in memory."""
NEEDED = {"rounds": PLAIN, "ledger": ["round", "kind", "sender", "bytes"]} | {name: ["round"] for name in GROWING[:3]}
"""Tables that a run goes on with, and columns without which they are not such."""


def reports_until(folder: Path, round: int) -> list[RoundReport]:
    """Return the reports of the rounds up to `round`, without what they said of single clients.

    Raises:
        ConfigError: where a table in `folder` is damaged or foreign, or rounds up to `round` are missing.
    """
    for name in NEEDED:
        _check(folder / f"{name}.parquet", round)
    rows = [row for piece in rows_until(folder / "rounds.parquet", round) for row in piece.to_pylist()]
    if round > 0:
        if [row["round"] for row in rows] != list(range(1, round + 1)):
            raise ConfigError(f"{folder / 'rounds.parquet'} lacks rounds before the checkpoint's, {round}; start anew")
        if not (folder / "ledger.parquet").exists():
            raise ConfigError(f"{folder / 'ledger.parquet'} is missing, without which the run cannot go on; start anew")
    return [_report(row) for row in rows]


def _check(path: Path, round: int) -> None:
    """Refuse a table that is there and damaged, or of something else."""
    if not path.exists():
        return
    try:
        names = pq.read_schema(path).names
        missing = [name for name in NEEDED[path.stem] if name not in names]
        foreign = [name for name in names if column_of(path.stem, name) is None]
        if not missing and not foreign:
            for _ in rows_until(path, round):  # so that damage in the middle is found before anything begins
                pass
            return
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"{path} cannot be read ({reason}), so that the run cannot go on; start anew") from error
    which = f"lacks the column {missing[0]}" if missing else f"has a column {foreign[0]}"
    raise ConfigError(f"{path} {which}: it was not written by a run, which therefore cannot go on; start anew")


def _report(row: dict[str, Any]) -> RoundReport:
    plain = {name: row.pop(name) for name in PLAIN}
    evaluated = any(value is not None for value in row.values())
    evaluation = Evaluation(metrics=row, clients=(), values={}, counts={}) if evaluated else None
    return RoundReport(**plain, evaluation=evaluation)
