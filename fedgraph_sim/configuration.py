"""From a TOML file, flags and --set to a validated configuration; errors name the key, the value and a way out."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
from pydantic import BaseModel, ValidationError

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.dataset import Dataset
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.engine.algorithm import Algorithm
from fedgraph_sim.engine.config import EngineConfig, EvaluationConfig, RunConfig
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.names import find_class

NAMED: Mapping[str, tuple[Mapping[str, type[BaseModel]], str]] = {
    "algorithm": (ALGORITHMS, "fedpub"),
    "dataset": (DATASETS, "csbm"),
    "partition": (PARTITIONERS, "metis"),
}
"""Tables whose class follows from their `name`: the classes by name, and the default."""
BASES: Mapping[str, type[BaseModel]] = {"algorithm": Algorithm, "dataset": Dataset, "partition": Partitioner}
"""What a class of the user's own must be derived from."""
PLAIN: Mapping[str, type[BaseModel]] = {"split": Split, "engine": EngineConfig, "evaluation": EvaluationConfig}
"""Tables of one class."""

Table = dict[str, Any]
Validated = TypeVar("Validated", bound=BaseModel)


def load_config(file: Path | None, flags: Mapping[str, Any], assignments: Iterable[str]) -> RunConfig:
    """Return the configuration of FILE, overridden by the `flags` that are not None, then by ``key=value`` strings.

    Raises:
        ConfigError: for the first thing that is wrong.
    """
    raw = read_toml(file) if file is not None else {}
    for key, value in flags.items():
        if value is not None:
            change(raw, key, value)
    for assignment in assignments:
        change_by_text(raw, assignment)
    return resolve(raw)


def change_by_text(raw: Table, assignment: str) -> None:
    """Set a key as ``key=value`` says, the value as in TOML, or a bare word."""
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise ConfigError(f"--set {assignment}: write key=value, such as --set algorithm.lr=0.1")
    change(raw, key.strip(), _toml_value(text.strip()))


def change(raw: Table, key: str, value: Any) -> None:
    """Set one dotted key; another name of a table keeps those of the table's keys that the other class has, too.

    So the baselines of a method run from the method's own file.
    """
    if key in NAMED and isinstance(value, str):
        raw[key] = _renamed(key, raw.get(key, {}), value)
    else:
        _assign(raw, key, value)


def resolve(raw: Table) -> RunConfig:
    """Validate nested tables as they stand in a TOML file."""
    tables: Table = dict(raw)
    for key, (classes, default) in NAMED.items():
        table = tables.get(key, {})
        table = {"name": table} if isinstance(table, str) else _table(key, table)
        name, model = find_class(key, table.get("name", default), classes, BASES[key])
        tables[key] = validated(model, table | {"name": name}, key)
    for key, model in PLAIN.items():
        tables[key] = validated(model, _table(key, tables.get(key, {})), key)
    plain = {key: value for key, value in tables.items() if not isinstance(value, BaseModel)}
    _check_keys(RunConfig, plain, "")
    try:
        return RunConfig.model_validate(tables, strict=True)
    except ValidationError as error:
        raise _one_sentence(error, "") from error


def cache_folder() -> Path:
    """Return where partitions and downloads are kept: FEDGRAPH_CACHE, or the user's cache folder."""
    return Path(os.environ.get("FEDGRAPH_CACHE") or platformdirs.user_cache_dir("fedgraph-sim")).absolute()


def _renamed(key: str, table: Any, name: str) -> Table:
    classes, _ = NAMED[key]
    name, model = find_class(key, name, classes, BASES[key])
    kept = {field: table[field] for field in table if field in model.model_fields} if isinstance(table, dict) else {}
    return kept | {"name": name}


def read_toml(file: Path) -> Table:
    """Return the tables of a TOML file. Raises `ConfigError` where it cannot be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from error


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
        if len(parsed) == 1:
            return parsed["value"]
    except (ValueError, RecursionError):
        pass
    try:
        return float(text)  # .5, which TOML refuses
    except ValueError:
        return text  # a bare word is a string: nobody quotes twice in a shell


def _assign(raw: Table, key: str, value: Any) -> None:
    *path, last = key.split(".")
    table = raw
    for part in path:
        inner = table.setdefault(part, {})
        if isinstance(inner, str) and part in NAMED:
            inner = table[part] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{key}={value}: {part} is a value, not a table; see `fedgraph-sim keys`")
        table = inner
    table[last] = value


def _table(key: str, value: Any) -> Table:
    if not isinstance(value, dict):
        raise ConfigError(f"{key}={value}: must be a table; write [{key}] and its keys below")
    return value


def _check_keys(model: type[BaseModel], table: Table, prefix: str) -> None:
    for key, value in table.items():
        if key not in model.model_fields:
            shown = "" if isinstance(value, dict) else f"={value}"
            raise ConfigError(f"unknown key {prefix}{key}{shown}; {_nearest(key, model, prefix)}")


def _nearest(key: str, model: type[BaseModel], prefix: str) -> str:
    if not prefix:
        default = {table: classes[name] for table, (classes, name) in NAMED.items()}
        for table, candidate in {**default, **PLAIN}.items():
            if key in candidate.model_fields:
                return f"did you mean {table}.{key}?"
    near = get_close_matches(key, model.model_fields, n=1, cutoff=0.4)
    return f"did you mean {prefix}{near[0]}?" if near else f"known are {', '.join(model.model_fields)}"


def validated(model: type[Validated], table: Table, key: str) -> Validated:
    """Return the table `key` as its model. Raises `ConfigError` for the first thing that is wrong."""
    _check_keys(model, table, f"{key}.")
    try:
        return model.model_validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        raise _one_sentence(error, f"{key}.") from error


def _one_sentence(error: ValidationError, prefix: str) -> ConfigError:
    first = error.errors()[0]
    key = f"{prefix}{first['loc'][0]}" if first["loc"] else prefix.rstrip(".")
    # A key of several types has one error per type.
    same = [each["msg"] for each in error.errors() if each["loc"][:1] == first["loc"][:1]]
    message = " or ".join(same).removeprefix("Value error, ").replace("or Input should be", "or")
    message = message.replace("Input should be", "must be")
    value = first["input"]
    shown = "" if isinstance(value, dict) else f"={value}"
    return ConfigError(f"{key}{shown}: {message[0].lower()}{message[1:]}")
