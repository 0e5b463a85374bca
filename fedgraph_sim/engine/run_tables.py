"""The tables of a run that is to go on, as they were after a round."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.schema import column_of
from fedgraph_sim.errors import ConfigError

PLAIN = [field.name for field in fields(RoundReport) if field.name != "evaluation"]
"""Parts of a report that are a column each."""
NEEDED = {"rounds": PLAIN, "ledger": ["round", "kind", "bytes"], "clients": ["round"], "matrices": ["round"]}
NEEDED |= {"steps": ["round"]}
"""Tables that a run goes on with, and columns without which they are not such."""


def tables_until(folder: Path, round: int) -> dict[str, pa.Table]:
    """Return the rows up to `round` of each table in `folder`; one that the run does not have has no columns.

    Raises:
        ConfigError: where a file is damaged or foreign, or rounds up to `round` are missing.
    """
    tables = {name: _rows_until(folder / f"{name}.parquet", round) for name in NEEDED}
    if round > 0:
        found = tables["rounds"].column("round").to_pylist() if tables["rounds"].num_columns else []
        if found != list(range(1, round + 1)):
            raise ConfigError(f"{folder / 'rounds.parquet'} lacks rounds before the checkpoint's, {round}; start anew")
        if not tables["ledger"].num_columns:
            raise ConfigError(f"{folder / 'ledger.parquet'} is missing, without which the run cannot go on; start anew")
    return tables


def reports_of(tables: Mapping[str, pa.Table]) -> list[RoundReport]:
    """Return the reports of the rounds, without what they said of single clients."""
    return [_report(row) for row in tables["rounds"].to_pylist()]


def _rows_until(path: Path, round: int) -> pa.Table:
    if not path.exists():
        return pa.table({})
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"{path} cannot be read ({reason}), so that the run cannot go on; start anew") from error
    missing = [name for name in NEEDED[path.stem] if name not in table.column_names]
    foreign = [name for name in table.column_names if column_of(path.stem, name) is None]
    if missing or foreign:
        which = f"lacks the column {missing[0]}" if missing else f"has a column {foreign[0]}"
        raise ConfigError(f"{path} {which}: it was not written by a run, which therefore cannot go on; start anew")
    return table.filter(pc.field("round") <= round)


def _report(row: dict[str, Any]) -> RoundReport:
    plain = {name: row.pop(name) for name in PLAIN}
    evaluated = any(value is not None for value in row.values())
    evaluation = Evaluation(metrics=row, clients=(), values={}, counts={}) if evaluated else None
    return RoundReport(**plain, evaluation=evaluation)
