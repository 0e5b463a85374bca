"""The tables of a run that is to go on: whether they can be gone on with, and the reports that they hold."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.growing_table import rows_until
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.schema import column_of, type_name
from fedgraph_sim.errors import ConfigError

PLAIN = [field.name for field in fields(RoundReport) if field.name != "evaluation"]
"""Parts of a report that are a column each."""
GROWING = ("clients", "matrices", "steps", "ledger")
"""Tables that grow by rows for clients, pairs of clients, steps or messages, and are not kept in memory."""
NEEDED = {"rounds": PLAIN, "ledger": ["round", "kind", "sender", "bytes"]} | {name: ["round"] for name in GROWING[:3]}
"""Tables that a run goes on with, and columns without which they are not such."""


@dataclass(frozen=True)
class Extent:
    """How many rows a table has, and which columns."""

    rows: int
    columns: tuple[str, ...]


def extents(folder: Path) -> dict[str, Extent]:
    """Return the extent of each table that is there."""
    found = {}
    for name in NEEDED:
        path = folder / f"{name}.parquet"
        if path.exists():
            about = pq.read_metadata(path)
            found[name] = Extent(about.num_rows, tuple(about.schema.to_arrow_schema().names))
    return found


def reports_until(folder: Path, round: int, expected: Mapping[str, Extent] | None = None) -> list[RoundReport]:
    """Return the reports of the rounds up to `round`, without what they said of single clients.

    `expected` are the extents of the tables at that round, where they are known.

    Raises:
        ConfigError: where a table in `folder` is damaged or foreign, or lacks something.
    """
    for name in NEEDED:
        _check(folder / f"{name}.parquet", round, None if expected is None else expected.get(name, Extent(0, ())))
    rows = [row for piece in rows_until(folder / "rounds.parquet", round) for row in piece.to_pylist()]
    return [_report(row) for row in rows]


def _check(path: Path, round: int, expected: Extent | None) -> None:
    """Refuse a table that is damaged, of something else, or not as large as expected."""
    if not path.exists():
        if expected is not None and expected.columns:
            raise ConfigError(f"{path} is missing, without which the run cannot go on; start anew")
        return
    try:
        schema, count = pq.read_schema(path), 0
        fault = _fault(path.stem, schema, expected)
        for piece in rows_until(path, round) if not fault else ():
            count += piece.num_rows  # so that damage in the middle is found before anything begins
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"{path} cannot be read ({reason}), so that the run cannot go on; start anew") from error
    if not fault and expected is not None and count != expected.rows:
        fault = f"has {count} rows up to round {round} instead of {expected.rows}"
    if fault:
        raise ConfigError(f"{path} {fault}: it is not as the run wrote it, which therefore cannot go on; start anew")


def _fault(name: str, schema: pa.Schema, expected: Extent | None) -> str:
    """Return what is wrong with the columns of a table; nothing if they are as a run writes them."""
    wanted = [*NEEDED[name], *(() if expected is None else expected.columns)]
    for column in wanted:
        if column not in schema.names:
            return f"lacks the column {column}"
    for field in schema:
        declared = column_of(name, field.name)
        if declared is None:
            return f"has a column {field.name}"
        if type_name(field.type) != declared.type:
            return f"has a column {field.name} of type {type_name(field.type)} instead of {declared.type}"
    return ""


def _report(row: dict[str, Any]) -> RoundReport:
    plain = {name: row.pop(name) for name in PLAIN}
    evaluated = any(value is not None for value in row.values())
    evaluation = Evaluation(metrics=row, clients=(), values={}, counts={}) if evaluated else None
    return RoundReport(**plain, evaluation=evaluation)
