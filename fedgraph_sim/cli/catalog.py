"""Lists of what there is, and the parameters of each, taken from the classes."""

from collections.abc import Mapping
from inspect import cleandoc
from itertools import groupby
from typing import Any, Literal, get_args, get_origin

import click
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich import box
from rich.table import Table

from fedgraph_sim.cli.consoles import table_console
from fedgraph_sim.cli.options import algorithm_names, dataset_names, partitioner_names, recipe_names
from fedgraph_sim.config_table import MAX_INT


@click.command()
@click.argument("name", required=False, shell_complete=algorithm_names)
def algorithms(name: str | None) -> None:
    """List the algorithms, or show every parameter of the algorithm NAME."""
    from fedgraph_sim.algorithms.registry import ALGORITHMS
    from fedgraph_sim.engine.algorithm import Algorithm

    _show("algorithm", ALGORITHMS, name, Algorithm)


@click.command()
@click.argument("name", required=False, shell_complete=dataset_names)
def datasets(name: str | None) -> None:
    """List the data sets, or show every option of the data set NAME."""
    from fedgraph_sim.datasets.dataset import Dataset
    from fedgraph_sim.datasets.registry import DATASETS

    _show("dataset", DATASETS, name, Dataset)


@click.command()
@click.argument("name", required=False, shell_complete=partitioner_names)
def partitioners(name: str | None) -> None:
    """List the partitioners, or show every option of the partitioner NAME."""
    from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
    from fedgraph_sim.datasets.registry import PARTITIONERS

    _show("partition", PARTITIONERS, name, Partitioner)


@click.command()
def keys() -> None:
    """List the keys of a configuration that belong to no algorithm, data set or partitioner."""
    from fedgraph_sim.configuration import PLAIN
    from fedgraph_sim.datasets.series_dataset import SERIES
    from fedgraph_sim.engine.config import RunConfig

    console = table_console()
    console.print(parameter_table("", RunConfig))
    for table, model in PLAIN.items():
        console.print(parameter_table(table, model))
        if table == "split":
            console.print(f"[split] of {SERIES.noun}, instead of the above")
            console.print(parameter_table(table, SERIES.split))
    console.print("[algorithm], [dataset] and [partition]: a name, and the keys that the command for it shows")


@click.command()
@click.argument("name", required=False, shell_complete=recipe_names)
def recipes(name: str | None) -> None:
    """List the recipes: whole-run files for `fedgraph-sim run recipe:NAME`; or print the recipe NAME, to be kept.

    \b
    Example:
      fedgraph-sim recipes fedpub-cora-disjoint-10 > mine.toml
    """  # noqa: D301
    from fedgraph_sim.recipes import all_recipes, recipe, summary, title

    if name is not None:
        click.echo(recipe(name).read_text(encoding="utf-8"), nl=False)
        return
    console = table_console()
    for group, files in groupby(all_recipes().items(), key=lambda item: item[1].parent):
        console.print(title(group))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for key, path in files:
            table.add_row(f"  {key}", summary(path))
        console.print(table)


def _show(kind: str, classes: Mapping[str, type[Any]], name: str | None, base: type[Any]) -> None:
    from fedgraph_sim.names import find_class

    console = table_console()
    if name is None:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for key, model in classes.items():
            table.add_row(key, model.summary)
        console.print(table)
        return
    name, found = find_class(kind, name, classes, base)
    console.print(f"{name}: {found.summary}\n\n{cleandoc(found.__doc__ or '')}")
    console.print(parameter_table(kind, found))


def parameter_table(kind: str, model: type[BaseModel]) -> Table:
    """Return a table of the keys of `model` as the config table ``[kind]``: default, values, unit, meaning."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("key", "default", "values", "unit", "meaning"):
        table.add_column(heading, no_wrap=heading == "key")
    for key, field in model.model_fields.items():
        if key != "name" and not _is_table(field):
            default = "(required)" if field.is_required() else _toml(field.default)
            extra = field.json_schema_extra
            unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
            table.add_row(f"{kind}.{key}".lstrip("."), default, _values(field), unit, field.description or "")
    return table


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _values(field: FieldInfo) -> str:
    choices = [_toml(choice) for part in (field.annotation, *get_args(field.annotation)) for choice in _literals(part)]
    numbers = [
        kind.__name__ for kind in (bool, int, float, str) if kind in (field.annotation, *get_args(field.annotation))
    ]
    limits = [
        f"{sign} {_limit(getattr(bound, name))}"
        for bound in field.metadata
        for kind, name, sign in ((Ge, "ge", ">="), (Gt, "gt", ">"), (Le, "le", "<="), (Lt, "lt", "<"))
        if isinstance(bound, kind) and getattr(bound, name) < MAX_INT
    ]
    return ", ".join([" ".join([*numbers, " and ".join(limits)]).strip(), *choices]).strip(", ")


def _limit(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _is_table(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _literals(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()
