"""Columns of the user's Parquet files as arrays; what is wrong is told with file, column and row, counted from 1."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedgraph_sim.datasets.checks import first
from fedgraph_sim.errors import ConfigError


def read_table(path: Path, required: Sequence[str], *, min_rows: int) -> pa.Table:
    """Return a Parquet file that has the `required` columns and at least `min_rows` rows."""
    try:
        with pq.ParquetFile(path) as file:
            _refuse_twins(file.schema_arrow.names, path)
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(
            f"{path} is not a readable Parquet file ({error}); correct dataset.path or the file"
        ) from error
    for name in required:
        if name not in table.column_names:
            raise ConfigError(f"{path} has no column {name} among {', '.join(table.column_names)}; add it")
    if table.num_rows < min_rows:
        raise ConfigError(f"{path} has no rows; write one row per node")
    return table


def keys(table: pa.Table, name: str, path: Path) -> pa.Array:
    """Return a column of integers or text, without nulls, as int64 or string."""
    column = table[name].combine_chunks()
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


def positions(table: pa.Table, name: str, ids: pa.Array, path: Path) -> NDArray[np.int64]:
    """Return the position of each row's value in `ids`."""
    column = keys(table, name, path)
    if column.type != ids.type:
        raise ConfigError(
            f"{path}: column {name} is of type {column.type} but the ids of nodes.parquet are {ids.type};"
            " store both as integers or both as text"
        )
    found = pc.index_in(column, value_set=ids)
    row = first(found.is_null().to_numpy(zero_copy_only=False))
    if row is not None:
        raise ConfigError(
            f"{path}: {name} {column[row - 1].as_py()!r} of row {row} is no id in nodes.parquet;"
            " remove the edge or add the node"
        )
    return np.asarray(found.to_numpy(), dtype=np.int64)


def numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.float32]:
    """Return a numeric column, without nulls, as float32."""
    column = table[name].combine_chunks()
    _refuse_text(column.type, name, path)
    _refuse_nulls(column, name, path)
    return _float32(column)


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
    return _float32(values).reshape(len(column), int(lengths[0]))


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


def _float32(column: pa.Array) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float32)


def _refuse_text(type_: pa.DataType, name: str, path: Path) -> None:
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)):
        raise ConfigError(f"{path}: column {name} is of type {type_} but must be numeric; convert or remove it")


def _refuse_nulls(column: pa.Array, name: str, path: Path) -> None:
    row = first(column.is_null().to_numpy(zero_copy_only=False))
    if row is not None:
        raise ConfigError(f"{path}: {name} of row {row} is missing; fill it in or remove the row")
