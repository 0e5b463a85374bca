"""Columns of the user's tables, Parquet or CSV, as arrays; what is wrong is told with file, column and row, from 1."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedgraph_sim.datasets.checks import first
from fedgraph_sim.errors import ConfigError


def read_table(
    path: Path, required: Sequence[str], *, min_rows: int, row: str = "node", text: Sequence[str] = ()
) -> pa.Table:
    """Return a Parquet or CSV file that has the `required` columns and at least `min_rows` rows.

    `row` is what a row stands for; of a CSV file, which has no types, the columns `text` are taken as they stand.
    """
    kind = "CSV" if path.suffix == ".csv" else "Parquet"
    try:
        table = _read_csv(path, text) if kind == "CSV" else _read_parquet(path)
        names = table.column_names
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ConfigError(
            f"{path} is not a readable {kind} file ({error}); correct dataset.path or the file"
        ) from error
    _refuse_twins(names, path)
    for name in required:
        if name not in names:
            raise ConfigError(f"{path} has no column {name} among {', '.join(names)}; add it")
    if table.num_rows < min_rows:
        raise ConfigError(f"{path} has no rows; write one row per {row}")
    return table


def _read_parquet(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        _refuse_twins(file.schema_arrow.names, path)
        return file.read()


def _read_csv(path: Path, text: Sequence[str]) -> pa.Table:
    return pyarrow.csv.read_csv(
        path, convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(text, pa.large_string()))
    )


def keys(table: pa.Table, name: str, path: Path) -> pa.Array:
    """Return a column of integers or text, without nulls, as int64 or string."""
    column = _filled(table, name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    _refuse_nulls(column, name, path)
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return _int64(column, name, path)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string())
    raise ConfigError(f"{path}: column {name} is of type {column.type}; store it as integers or text")


def refuse_duplicates(column: pa.Array, name: str, path: Path) -> None:
    """Refuse a column in which a value comes twice."""
    seen_at = pc.index_in(column, value_set=column).to_numpy()
    row = first(seen_at != np.arange(len(column)))
    if row is not None:
        raise ConfigError(
            f"{path}: {name} {column[row - 1].as_py()!r} of row {row} is that of row {seen_at[row - 1] + 1} too;"
            " make ids unique"
        )


def refuse_no_features(names: Sequence[str], path: Path) -> None:
    """Refuse a file without columns that could be features."""
    if not names:
        raise ConfigError(f"{path} has no feature columns; add the list column features, or one column per feature")


def encode(table: pa.Table, name: str, path: Path) -> tuple[NDArray[np.int64], int]:
    """Return each row's number among the sorted distinct values, and how many values there are."""
    values, codes = np.unique(keys(table, name, path).to_numpy(zero_copy_only=False), return_inverse=True)
    return codes.astype(np.int64), len(values)


def encode_known(table: pa.Table, name: str, path: Path) -> tuple[NDArray[np.int64], int]:
    """Return what `encode` does, and -1 where a row has no value; some must have one."""
    known = table[name].is_valid().to_numpy()
    codes = np.full(table.num_rows, -1)
    codes[known], count = encode(table.select([name]).filter(pa.array(known)), name, path)
    if not count:
        raise ConfigError(f"{path}: column {name} has no value in any row; fill some in")
    return codes, count


def positions(table: pa.Table, name: str, ids: pa.Array, path: Path, *, known: str, way_out: str) -> NDArray[np.int64]:
    """Return the position of each row's value in `ids`, of which `known` says what they are."""
    column = keys(table, name, path)
    if column.type != ids.type and len(column):
        raise ConfigError(
            f"{path}: column {name} is of type {column.type} but each {known} is {ids.type};"
            " store both as integers or both as text"
        )
    found = pc.index_in(column.cast(ids.type), value_set=ids)
    row = first(found.is_null().to_numpy(zero_copy_only=False))
    if row is not None:
        raise ConfigError(f"{path}: {name} {column[row - 1].as_py()!r} of row {row} is no {known}; {way_out}")
    return np.asarray(found.to_numpy(), dtype=np.int64)


def numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.float32]:
    """Return a numeric column, all finite, as float32."""
    column = _filled(table, name)
    _refuse_text(column.type, name, path)
    _refuse_nulls(column, name, path)
    return _float32(column, name, path)


def not_negative(table: pa.Table, name: str, path: Path) -> NDArray[np.float32]:
    """Return a numeric column, all finite and none below zero, as float32."""
    values = numbers(table, name, path)
    row = first(values < 0)
    if row is not None:
        raise ConfigError(
            f"{path}: {name} of row {row} is {values[row - 1]:g}; replace it by a number that is not negative"
        )
    return values


def equal_lists(table: pa.Table, name: str, path: Path) -> NDArray[np.float32]:
    """Return a column of equally long lists of numbers as float32 [num_rows, length]."""
    column = table[name].combine_chunks()
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(column.type) for is_kind in is_list):
        raise ConfigError(f"{path}: column {name} is of type {column.type}; store a list of numbers in every row")
    _refuse_text(column.type.value_type, name, path)
    _refuse_nulls(column, name, path)
    lengths = pc.list_value_length(column).to_numpy()
    row = first(lengths == 0)
    if row is not None:
        raise ConfigError(f"{path}: {name} of row {row} is an empty list; give every node at least one number")
    row = first(lengths != lengths[0])
    if row is not None:
        raise ConfigError(
            f"{path}: {name} of row {row} has {lengths[row - 1]} numbers and that of row 1 {lengths[0]};"
            " make all lists equally long"
        )
    values = pc.list_flatten(column)
    row = first(values.is_null().to_numpy(zero_copy_only=False))
    if row is not None:
        raise ConfigError(
            f"{path}: {name} of row {(row - 1) // lengths[0] + 1} has a missing value; replace it by a number"
        )
    return _float32(values, name, path, int(lengths[0])).reshape(len(column), int(lengths[0]))


def choices(table: pa.Table, name: str, values: Mapping[str, int], path: Path) -> NDArray[np.int8]:
    """Return the number that stands for each row's word; 0 where the row is null."""
    words = list(values)
    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int8)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise ConfigError(f"{path}: column {name} is of type {column.type}; store text: {', '.join(words)}")
    found = pc.index_in(column, value_set=pa.array(words, column.type))
    row = first(pc.and_(found.is_null(), column.is_valid()).to_numpy(zero_copy_only=False))
    if row is not None:
        raise ConfigError(
            f"{path}: {name} {column[row - 1].as_py()!r} of row {row} is unknown; use {', '.join(words)} or null"
        )
    numbers_of_words = np.array([*values.values(), 0], dtype=np.int8)
    chosen: NDArray[np.int8] = numbers_of_words[found.fill_null(len(words)).to_numpy()]
    return chosen


def _int64(column: pa.Array, name: str, path: Path) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"{path}: column {name} has integers from 2^63; renumber them or store them as text"
        ) from error


def _refuse_twins(names: Sequence[str], path: Path) -> None:
    twins = [name for name, count in Counter(names).items() if count > 1]
    if twins:
        raise ConfigError(f"{path} has several columns named {', '.join(twins)}; rename or remove all but one")


def _filled(table: pa.Table, name: str) -> pa.Array:
    """Return a column; where the table has no rows, its type, which nothing shows, does not matter."""
    column = table[name].combine_chunks()
    return column if len(column) or not pa.types.is_null(column.type) else column.cast(pa.int64())


def _float32(column: pa.Array, name: str, path: Path, per_row: int = 1) -> NDArray[np.float32]:
    """Return values, `per_row` of them in a row, as float32, which ends at 3.4e38."""
    with np.errstate(over="ignore"):
        values = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float32)
    bad = first(~np.isfinite(values))
    if bad is not None:
        raise ConfigError(
            f"{path}: {name} of row {(bad - 1) // per_row + 1} holds {column[bad - 1].as_py():g};"
            " replace it by a finite number up to 3.4e38"
        )
    return values


def _refuse_text(type_: pa.DataType, name: str, path: Path) -> None:
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)):
        raise ConfigError(f"{path}: column {name} is of type {type_} but must be numeric; convert or remove it")


def _refuse_nulls(column: pa.Array, name: str, path: Path) -> None:
    row = first(column.is_null().to_numpy(zero_copy_only=False))
    if row is not None:
        raise ConfigError(f"{path}: {name} of row {row} is missing; fill it in or remove the row")
