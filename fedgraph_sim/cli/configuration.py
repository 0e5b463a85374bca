"""From a TOML file, flags and --set to a validated configuration; errors name the key, the value and a way out."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.graph_dataset import GRAPH
from fedgraph_sim.datasets.kind import Kind
from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.engine.checks import check_kind
from fedgraph_sim.engine.config import EngineConfig, EvaluationConfig, RunConfig
from fedgraph_sim.engine.system import SystemConfig
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.names import find

NAMED: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "algorithm": ALGORITHMS,
    "dataset": DATASETS,
    "partition": PARTITIONERS,
}
"""Tables whose class follows from their `name`: the classes by name."""
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
BASELINES: Mapping[Kind, tuple[str, str]] = {GRAPH: ("fedavg", "local"), SERIES: ("fedgru", "gru_local")}
"""The plain average and training alone, by the kind of data: what to compare with first."""

Table = dict[str, Any]


def load_config(file: Path | None, flags: Mapping[str, Any], assignments: Iterable[str]) -> RunConfig:
    """Return the configuration of FILE, overridden by the `flags` that are not None, then by ``key=value`` strings.

    Raises:
        ConfigError: for the first thing that is wrong.
    """
    raw = _read_toml(file) if file is not None else {}
    for key, value in flags.items():
        if value is not None and key in NAMED:
            raw[key] = _renamed(key, raw.get(key, {}), value)
        elif value is not None:
            raw[key] = value
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.strip().split(".")):
            raise ConfigError(f"--set {assignment}: write key=value, such as --set algorithm.lr=0.1")
        _assign(raw, key.strip(), _toml_value(text.strip()))
    return resolve(raw)


def resolve(raw: Table) -> RunConfig:
    """Validate nested tables as they stand in a TOML file."""
    tables: Table = dict(raw)
    named = {key: _named_table(key, tables.get(key, {})) for key in NAMED}
    kind = _kind(named)
    defaults = DEFAULTS[kind] | {"partition": kind.partition}
    for key, table in named.items():
        name = find(key, table.get("name", defaults[key]), NAMED[key])
        tables[key] = _validated(NAMED[key][name], table | {"name": name}, key)
    tables.setdefault("clients", kind.clients)
    evaluation = _table("evaluation", tables.get("evaluation", {}))
    tables["evaluation"] = {"protocol": kind.protocol} | evaluation
    for key, model in (PLAIN | {"split": kind.split}).items():
        tables[key] = _validated(model, _table(key, tables.get(key, {})), key)
    plain = {key: value for key, value in tables.items() if not isinstance(value, BaseModel)}
    _check_keys(RunConfig, plain, "")
    try:
        config = RunConfig.model_validate(tables, strict=True)
    except ValidationError as error:
        raise _one_sentence(error, "") from error
    check_kind(config)
    return config


def _named_table(key: str, table: Any) -> Table:
    return {"name": table} if isinstance(table, str) else _table(key, table)


def _kind(tables: Mapping[str, Table]) -> Kind:
    """Return the kind of data of the data set that is named or else of the algorithm; graphs if neither is."""
    for key, classes in (("dataset", DATASETS), ("algorithm", ALGORITHMS)):
        if "name" in tables[key]:
            return classes[find(key, tables[key]["name"], classes)].kind
    return GRAPH


def _renamed(key: str, table: Any, name: str) -> Table:
    """Return a table for another name, with those of its keys that the other class has, too.

    So the baselines of a method run from the method's own file.
    """
    classes = NAMED[key]
    known = classes[find(key, name, classes)].model_fields
    kept = {field: value for field, value in table.items() if field in known} if isinstance(table, dict) else {}
    return kept | {"name": name}


def _read_toml(file: Path) -> Table:
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
    near = get_close_matches(key, model.model_fields, n=1, cutoff=0.4)
    return f"did you mean {prefix}{near[0]}?" if near else f"known are {', '.join(model.model_fields)}"


def _validated(model: type[BaseModel], table: Table, key: str) -> BaseModel:
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
