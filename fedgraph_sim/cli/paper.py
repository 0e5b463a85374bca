"""A paper's grid: the recipes and methods that its ``paper.toml`` names, and the runs that a user chooses of them."""

import tomllib
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.cli.cells import Cell, Method, check_number_of_runs, in_one_process
from fedgraph_sim.cli.grid_results import Figure
from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.names import find
from fedgraph_sim.recipes import all_papers, recipe


class PaperMethod(Method):
    """A method of a paper. `variant` is appended to a recipe's name: it runs that recipe, with its algorithm, instead.

    `recipes` are those that the method makes sense for; none means all.
    """

    variant: str = ""
    recipes: tuple[str, ...] = ()


class Published(BaseModel):
    """One table as printed: for each method a figure per recipe, in the unit of the paper.

    `secondary` marks figures that another work than the paper and its code reports; `runs` is None where nobody says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    secondary: bool
    runs: int | None = None
    recipes: tuple[str, ...]
    figures: dict[str, tuple[Figure, ...]]


class Paper(BaseModel):
    """A ``paper.toml``: the recipes and methods of its grid, and what was published of them.

    `methods` and `partition` are what runs unless the user says otherwise; `unit` "%" turns fractions into per cent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    note: str
    unit: Literal["%", ""]
    recipes: tuple[str, ...]
    partition: tuple[str, ...] = ()
    methods: tuple[str, ...]
    method: dict[str, PaperMethod] = {}
    published: tuple[Published, ...] = ()

    def figures(self, recipe: str, method: str) -> Iterator[tuple[Published, Figure]]:
        """Yield what was published of a method on a recipe."""
        for table in self.published:
            if method in table.figures:
                figure = dict(zip(table.recipes, table.figures[method], strict=True)).get(recipe)
                if figure:
                    yield table, figure


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the user wants of a grid; None is everything, or what the paper's file says."""

    dataset: Sequence[str] | None = None
    clients: Sequence[str] | None = None
    partition: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    seeds: int = 3
    rounds: int | None = None
    assignments: Sequence[str] = ()

    @property
    def changes(self) -> list[str]:
        """What is not as the recipes have it."""
        return [*([] if self.rounds is None else [f"rounds={self.rounds}"]), *self.assignments]


def load_paper(name: str) -> Paper:
    """Return the ``paper.toml`` of a paper. Raises `ConfigError` for one that is not there."""
    files = all_papers()
    return Paper.model_validate(tomllib.loads(files[find("paper", name, files)].read_text(encoding="utf-8")))


def cells_of(paper: Paper, choice: Choice) -> list[Cell]:
    """Return the runs that `choice` makes of the grid: recipe by recipe, method by method, seed by seed.

    Raises:
        ConfigError: for the first thing that is wrong.
    """
    known = [*paper.methods, *(name for name in (*paper.method, *ALGORITHMS) if name not in paper.methods)]
    methods = [find("methods", name, known) for name in choice.methods or paper.methods]
    settings = [
        (name, method)
        for name in _chosen(paper, choice)
        for method in dict.fromkeys(methods)
        if name in (paper.method.get(method, PaperMethod()).recipes or paper.recipes)
    ]
    if not settings:
        raise ConfigError(f"--methods={','.join(methods)} are for other recipes than those chosen; choose both again")
    check_number_of_runs(f"--seeds={choice.seeds}", choice.seeds, len(settings))
    fields = [
        _plain_config(paper, name, method, 0, choice).algorithm.__class__.model_fields for name, method in settings
    ]
    for assignment in choice.assignments:
        if not any(_concerns(assignment, known) for known in fields):
            raise ConfigError(
                f"--set {assignment}: none of the methods {', '.join(methods)} has it; see `algorithms NAME`"
            )
    return [
        Cell(labels={"recipe": name, "method": method}, seed=seed, config=_config(paper, name, method, seed, choice))
        for name, method in settings
        for seed in range(choice.seeds)
    ]


def _config(paper: Paper, setting: str, name: str, seed: int, choice: Choice) -> RunConfig:
    """Return a run's configuration; what is set of an algorithm concerns the methods that have it."""
    fields = _plain_config(paper, setting, name, seed, choice).algorithm.__class__.model_fields
    assignments = [assignment for assignment in choice.assignments if _concerns(assignment, fields)]
    return in_one_process(_plain_config(paper, setting, name, seed, choice, assignments))


def _plain_config(
    paper: Paper, setting: str, name: str, seed: int, choice: Choice, assignments: Sequence[str] = ()
) -> RunConfig:
    method = paper.method.get(name, PaperMethod())
    algorithm = method.algorithm or (None if method.variant else name)
    flags = {"algorithm": algorithm, "seed": seed, "rounds": choice.rounds}
    return load_config(recipe(setting + method.variant), flags, (*method.set, *assignments))


def _concerns(assignment: str, fields: Container[str]) -> bool:
    table, _, field = assignment.partition("=")[0].strip().partition(".")
    return table != "algorithm" or not field or field.partition(".")[0] in fields


def _chosen(paper: Paper, choice: Choice) -> Iterator[str]:
    """Yield the recipes whose configuration has the chosen data set, number of clients and partition."""
    configs = {name: load_config(recipe(name), {}, ()) for name in paper.recipes}
    wanted = {
        "dataset": _wanted("dataset", choice.dataset, (config.dataset.name for config in configs.values())),
        "clients": _wanted("clients", choice.clients, (config.clients for config in configs.values())),
        "partition": _wanted(
            "partition", choice.partition or paper.partition, (config.partition.name for config in configs.values())
        ),
    }
    chosen = [
        name
        for name, config in configs.items()
        if config.dataset.name in wanted["dataset"]
        and str(config.clients) in wanted["clients"]
        and config.partition.name in wanted["partition"]
    ]
    if not chosen:
        asked = ", ".join(f"{key}={','.join(values)}" for key, values in wanted.items())
        raise ConfigError(f"no recipe has {asked} at once; there are {', '.join(configs)}")
    yield from chosen


def _wanted(kind: str, values: Sequence[str] | None, known: Iterable[Any]) -> list[str]:
    """Return the known values that are wanted, all of them by default."""
    names = list(dict.fromkeys(map(str, known)))
    return [find(kind, value, names) for value in values] if values else names
