"""The Parquet tables of a run's folder, column by column; docs/outputs.md shows the same.

A file's metadata hold the version of this schema (``fedgraph_sim.schema``), a column's its unit and its meaning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

VERSION = 1
"""Rises when a column is renamed or removed, or means something else; not when one is added."""
VERSION_KEY = "fedgraph_sim.schema"
TABLE_KEY = "fedgraph_sim.table"

METRIC = "<metric>"
"""Stands in a column's name for a metric that the algorithm measures, such as ``test_accuracy``."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column, or, with `METRIC` in its name, one for each metric. `type` is what Arrow calls it."""

    name: str
    type: str
    unit: str
    meaning: str

    def matches(self, name: str) -> bool:
        """Tell whether this is the description of a column."""
        head, placeholder, tail = self.name.partition(METRIC)
        if not placeholder:
            return name == self.name
        return name.startswith(head) and name.endswith(tail) and len(name) > len(head) + len(tail)


def _column(name: str, type: str, unit: str, meaning: str) -> Column:
    return Column(name=name, type=type, unit=unit, meaning=meaning)


_ROUND = _column("round", "int64", "", "number of the round, from 1")
_CLIENT = _column("client", "int64", "", "number of the client, from 0")
_VALUE = (
    "of training, validation and test examples where the name begins with train_, val_ or test_; accuracy, AUC, "
    "shares and mape are fractions, other errors of forecasts are in the unit of the readings, a loss is in nats, or "
    "the mean squared error of normalised readings"
)

TABLES: dict[str, tuple[Column, ...]] = {
    "rounds": (
        _ROUND,
        _column("num_participants", "int64", "clients", "clients that took part: sampled, and in time"),
        _column("seconds", "double", "s", "wall-clock time from the round's begin to the next one's, or to its end"),
        _column("seconds_compute", "double", "s", "client steps, in the slowest actor"),
        _column("seconds_transport", "double", "s", "calls to the actors and sums over their clients; what is left"),
        _column("seconds_server", "double", "s", "the algorithm's own work on the server"),
        _column("seconds_evaluation", "double", "s", "evaluation in the slowest actor; may reach into the next round"),
        _column("seconds_simulated", "double", "s", "what the round takes on the devices of [system]; 0 without them"),
        _column("bytes_up", "int64", "B", "what the clients sent to the server in this round"),
        _column("bytes_down", "int64", "B", "what the server sent to the clients in this round"),
        _column(METRIC, "double", "", f"by the protocol of the run, {_VALUE}; null in a round without evaluation"),
    ),
    "clients": (
        _ROUND,
        _CLIENT,
        _column("participated", "bool", "", "whether the client took part in this round: sampled, and in time"),
        _column(
            f"{METRIC}_count",
            "int64",
            "examples",
            "nodes, links or entries behind the client's value; null where it is not measured",
        ),
        _column(METRIC, "double", "", f"of the client's own model, {_VALUE}; null where the client has none of them"),
    ),
    "ledger": (
        _column("round", "int32", "", "number of the round; 0 is the set-up"),
        _column("call", "int32", "", "number of the call within the round, from 0"),
        _column("step", "dictionary<string>", "", "the client step that was called"),
        _column("kind", "dictionary<string>", "", "setup, train, or eval, which stays out of the totals"),
        _column("sender", "int32", "", "number of the client; -1 is the server"),
        _column("receiver", "int32", "", "number of the client; -1 is the server"),
        _column("bytes", "int64", "B", "bytes of the tensors in the message"),
    ),
    "matrices": (
        _column("round", "int32", "", "number of the round; 0 for what the partition says of itself"),
        _column("name", "dictionary<string>", "", "what is compared, such as similarity, label_similarity"),
        _column("row", "int32", "", "number of the one client"),
        _column("column", "int32", "", "number of the other client"),
        _column("value", "float", "", "the number for this pair of clients"),
    ),
    "steps": (
        _column("round", "int64", "", "number of the round, from 1"),
        _column("step", "int64", "", "steps ahead of the last known reading, from 1"),
        _column(METRIC, "double", "", "of all clients together, in the unit of the readings where it is an error"),
    ),
    "forecasts": (
        _column("round", "int32", "", "the round of the best validation value, whose forecasts these are"),
        _column("sensor", "int32", "", "number of the sensor, those of one client after those of another"),
        _column("time", "int32", "", "number of the test window, from 0, whose last step ahead this is"),
        _column(METRIC, "float", "", "one column per curve, readings and predictions, in the unit of the data"),
    ),
}


def column_of(table: str, name: str) -> Column | None:
    """Return what is documented of a column; None if nothing is."""
    return next((column for column in TABLES[table] if column.matches(name)), None)


def described(name: str, table: pa.Table) -> pa.Table:
    """Return the table `name` with the schema's version in its metadata, and units and meanings in its columns'."""
    fields = [_described(name, field) for field in table.schema]
    metadata = {VERSION_KEY: str(VERSION), TABLE_KEY: name}
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, metadata=metadata))


def _described(table: str, field: pa.Field) -> pa.Field:
    column = column_of(table, field.name)
    assert column is not None, f"{table}.parquet has no column {field.name}"
    return field.with_metadata({"unit": column.unit, "meaning": column.meaning})


def type_name(type: pa.DataType) -> str:
    """Return the name of an Arrow type as the schema writes it."""
    return f"dictionary<{type.value_type}>" if pa.types.is_dictionary(type) else str(type)


def markdown(table: str) -> Sequence[str]:
    """Return the lines of a Markdown table of the columns."""

    def lines() -> Iterator[str]:
        yield "| column | type | unit | meaning |"
        yield "| --- | --- | --- | --- |"
        for column in TABLES[table]:
            yield f"| `{column.name}` | {column.type} | {column.unit} | {column.meaning} |"

    return list(lines())
