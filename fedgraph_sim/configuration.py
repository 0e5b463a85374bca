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
from fedgraph_sim.datasets.graph_dataset import GRAPH
from fedgraph_sim.datasets.kind import Kind
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.engine.algorithm import Algorithm
from fedgraph_sim.engine.checks import check_kind
from fedgraph_sim.engine.config import EngineConfig, EvaluationConfig, RunConfig
from fedgraph_sim.engine.system import SystemConfig
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.names import find_class

NAMED: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "algorithm": ALGORITHMS,
    "dataset": DATASETS,
    "partition": PARTITIONERS,
}
"""Tables whose class follows from their `name`: the classes by name."""
BASES: Mapping[str, type[Any]] = {"algorithm": Algorithm, "dataset": Dataset, "partition": Partitioner}
"""What a class of the user's own must be derived from."""
PLAIN: dict[str, type[BaseModel]] = {
    "split": Split,
    "engine": EngineConfig,
    "evaluation": EvaluationConfig,
    "system": SystemConfig,
}
"""Tables of one class; that of ``[split]`` is the one for graphs."""
DEFAULTS: Mapping[Kind, dict[str, str]] = {
    GRAPH: {"algorithm": "fedpub", "dataset": "csbm"},
    SERIES: {"algorithm": "cnfgnn", "dataset": "diffusion"},
}
"""The names that stand in for those which the user leaves out, by the kind of data."""

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
    named = {key: _named_table(key, tables.get(key, {})) for key in NAMED}
    kind = _kind(named)
    defaults = DEFAULTS[kind] | {"partition": kind.partition}
    for key, table in named.items():
        name, model = _class_of(key, table.get("name", defaults[key]))
        tables[key] = validated(model, table | {"name": name}, key)
    tables.setdefault("clients", kind.clients)
    evaluation = _table("evaluation", tables.get("evaluation", {}))
    tables["evaluation"] = {"protocol": kind.protocol} | evaluation
    for key, model in (PLAIN | {"split": kind.split}).items():
        tables[key] = validated(model, _table(key, tables.get(key, {})), key)
    plain = {key: value for key, value in tables.items() if not isinstance(value, BaseModel)}
    _check_keys(RunConfig, plain, "")
    try:
        config = RunConfig.model_validate(tables, strict=True)
    except ValidationError as error:
        raise _one_sentence(error, "") from error
    check_kind(config)
    return config


def known_keys(names: Mapping[str, str]) -> list[str]:
    """Return every key of a configuration with these names of algorithm, data set and partitioner, or the defaults.

    Raises:
        ConfigError: for a name that is not known.
    """
    named = {key: {"name": names[key]} if key in names else {} for key in NAMED}
    kind = _kind(named)
    defaults = DEFAULTS[kind] | {"partition": kind.partition}
    models = {key: _class_of(key, table.get("name", defaults[key]))[1] for key, table in named.items()}
    models |= PLAIN | {"split": kind.split}
    plain = [key for key in RunConfig.model_fields if key not in models]
    return plain + [f"{table}.{key}" for table, model in models.items() for key in model.model_fields if key != "name"]


def cache_folder() -> Path:
    """Return where partitions and downloads are kept: FEDGRAPH_CACHE, or the user's cache folder."""
    return Path(os.environ.get("FEDGRAPH_CACHE") or platformdirs.user_cache_dir("fedgraph-sim")).absolute()


def _named_table(key: str, table: Any) -> Table:
    return {"name": table} if isinstance(table, str) else _table(key, table)


def _kind(tables: Mapping[str, Table]) -> Kind:
    """Return the kind of data of the data set that is named or else of the algorithm; graphs if neither is."""
    for key in ("dataset", "algorithm"):
        if "name" in tables[key]:
            kind: Kind = _class_of(key, tables[key]["name"])[1].kind
            return kind
    return GRAPH


def _class_of(key: str, name: Any) -> tuple[str, type[Any]]:
    """Return the name and the class of a table that is named."""
    return find_class(key, name, NAMED[key], BASES[key])


def _renamed(key: str, table: Any, name: str) -> Table:
    name, model = _class_of(key, name)
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
        names = DEFAULTS[GRAPH] | {"partition": GRAPH.partition}
        default = {table: classes[names[table]] for table, classes in NAMED.items()}
        for table, candidate in {**default, **PLAIN}.items():
            if key in candidate.model_fields:
                return f"did you mean {table}.{key}?"
    near = get_close_matches(key, model.model_fields, n=1, cutoff=0.6)
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
    message = (
        message.replace("Input should be", "must be").replace("Tuple should", "must").replace(" after validation", "")
    )
    value = first["input"]
    if first["type"] == "missing":
        return ConfigError(f"{key} must be given: --set {key}=VALUE, or the key in the file")
    shown = "" if isinstance(value, dict) else f"={value}"
    return ConfigError(f"{key}{shown}: {message[0].lower()}{message[1:]}")
