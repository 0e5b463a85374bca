"""Reads the files of a run's folder and checks all that readers rely on; what does not fit is told with its file."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, ValidationError, model_validator

from fedgraph_sim.engine.schema import METRIC, TABLES, Column, column_of
from fedgraph_sim.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

MAX_DEPTH = 20
"""Levels of nested tables in a configuration: a dotted key may nest deeper than what walks the tables can."""
KEYS = {"rounds": ["round"], "clients": ["round", "client"], "matrices": ["round", "name", "row", "column"]}
"""Columns that tell the rows of a table apart."""
KINDS = {"int": "integers", "double": "numbers", "float": "numbers", "bool": "true or false", "dictionary": "text"}

Count = Annotated[int, Field(ge=0, lt=2**53)]
Clients = Annotated[int, Field(ge=0, le=10**7)]


class _Named(BaseModel):
    name: str


class _Evaluation(BaseModel):
    protocol: str = ""


class Config(BaseModel):
    """What every ``config.toml`` holds, and readers use."""

    clients: Clients
    rounds: Count
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    algorithm: _Named
    dataset: _Named
    evaluation: _Evaluation = _Evaluation()


class _Seconds(BaseModel):
    startup: float
    partition: float
    train: float


class Summary(BaseModel, extra="allow"):
    """What readers use of ``summary.json``; whatever else is in it are metrics where the name says so."""

    status: str
    error: str = ""
    best_round: Count | None = None
    seconds: _Seconds | None = None
    versions: dict[str, str] = {}

    @model_validator(mode="after")
    def _metrics_are_numbers(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if name.startswith(("val_", "test_")) and not _is_number(value):
                raise ValueError(f"{name} is no number")
        return self


class Partition(BaseModel):
    """What readers use of ``partition.json``; figures depend on the kind of data."""

    num_clients: Annotated[Clients, Field(ge=1)]
    num_nodes: Count = 0
    num_edges: Count = 0
    num_classes: Count = 0
    edges_lost: Count = 0
    nodes: list[Count] = []
    train: list[Count] = []
    val: list[Count] = []
    test: list[Count] = []
    class_counts: list[list[Count]] = []
    cut: list[list[Count]] | None = None

    @model_validator(mode="after")
    def _figures_are_complete(self) -> Self:
        for name, figures in self:
            if name in self.model_fields_set and isinstance(figures, list) and len(figures) != self.num_clients:
                raise ValueError(f"{name} does not have one entry for each of {self.num_clients} clients")
        needed = {"class_counts": self.num_classes, "edges_lost": self.num_edges}
        for name, count in needed.items():
            if count and name not in self.model_fields_set:
                raise ValueError(f"{name} is missing")
        if any(len(row) != self.num_classes for row in self.class_counts):
            raise ValueError(f"class_counts does not have {self.num_classes} classes in every row")
        if any(len(row) != self.num_clients for row in self.cut or ()):
            raise ValueError("cut is not square")
        return self


def read_config(path: Path) -> Mapping[str, Any]:
    """Return a ``config.toml``. Raises `FileNotFoundError`, and `ConfigError` where it is none of a run."""
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if _deeper_than(MAX_DEPTH, config):
        raise _foreign(path, f"its tables are nested more than {MAX_DEPTH} deep")
    _check(Config, config, path)
    return config


def read_json(path: Path, model: type[BaseModel]) -> Mapping[str, Any]:
    """Return a JSON file that fits `model`; empty where there is none."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise _foreign(path, "it holds no table of names and values")
    _check(model, content, path)
    return content


def read_table(path: Path, name: str) -> "pd.DataFrame":
    """Return the table `name` with all columns that the schema declares; empty where there is no file."""
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except FileNotFoundError:
        return pa.table({}).to_pandas()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    for column in TABLES[name]:
        if METRIC not in column.name and column.name not in table.column_names:
            raise _foreign(path, f"it has no column {column.name}")
    for number, field in enumerate(table.schema):
        declared = column_of(name, field.name)
        if declared is not None:
            _check_column(table.column(number), declared, field.name, path)
    frame: pd.DataFrame = table.to_pandas()
    if name in KEYS and frame.duplicated(KEYS[name]).any():
        raise _foreign(path, f"two rows have the same {', '.join(KEYS[name])}")
    return frame


def refuse_unknown_clients(frame: "pd.DataFrame", columns: tuple[str, ...], num_clients: int, path: Path) -> None:
    """Refuse a table with numbers of clients that the run does not have."""
    for column in columns:
        if len(frame) and not frame[column].between(0, num_clients - 1).all():
            raise _foreign(path, f"column {column} has numbers beyond the {num_clients} clients")


def _check(model: type[BaseModel], content: Mapping[str, Any], path: Path) -> None:
    try:
        model.model_validate(content, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        reason = f"{key}: {message[:1].lower()}{message[1:]}" if key else message
        raise _foreign(path, reason) from error


def _check_column(column: pa.ChunkedArray, declared: Column, name: str, path: Path) -> None:
    kind = declared.type.partition("<")[0].rstrip("0123456789")
    type_ = column.type
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    fits = {
        "int": pa.types.is_integer(type_),
        "double": pa.types.is_integer(type_) or pa.types.is_floating(type_),
        "float": pa.types.is_integer(type_) or pa.types.is_floating(type_),
        "bool": pa.types.is_boolean(type_),
        "dictionary": is_text or (pa.types.is_dictionary(type_) and pa.types.is_string(type_.value_type)),
    }
    if not fits[kind]:
        raise _foreign(path, f"column {name} is of type {type_} instead of {KINDS[kind]}")
    if METRIC not in declared.name and column.null_count:
        raise _foreign(path, f"column {name} has missing values")


def _foreign(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{path} is not as a run writes it: {reason}; restore it, or repeat the run")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _deeper_than(levels: int, value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels == 0 or _deeper_than(levels - 1, each) for each in inner)
