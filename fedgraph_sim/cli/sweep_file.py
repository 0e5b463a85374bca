"""A sweep: a run file with a table ``[sweep]``, which says what varies and how often each setting runs."""

import copy
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from fedgraph_sim.cli.cells import Cell, Method, check_number_of_runs, in_one_process
from fedgraph_sim.configuration import Table, change, change_by_text, read_toml, resolve, validated
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results.settings import flat

Value = bool | int | float | str


class Sweep(BaseModel):
    """The table ``[sweep]``: every combination of the grid, with every method and seed, is a run.

    A method is an algorithm, or what ``[sweep.method.NAME]`` says; without methods the file's own algorithm runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: int | tuple[int, ...] = Field(3, description="how many seeds, from 0; or a list of them")
    methods: tuple[str, ...] = Field((), description="names of algorithms, or of tables [sweep.method.NAME]")
    method: dict[str, Method] = Field({}, description="an algorithm, and the keys that the method sets")
    grid: dict[str, Any] = Field({}, description="lists of values by key, such as clients = [5, 10]")

    @property
    def axes(self) -> dict[str, Sequence[Value]]:
        """The values of each key of the grid."""
        axes = dict(flat(self.grid))
        for key, values in axes.items():
            if not isinstance(values, tuple) or not values:
                raise ConfigError(f"sweep.grid.{key}={values}: must be a list of values, such as [1, 2]")
        return axes

    @property
    def all_seeds(self) -> Sequence[int]:
        """The seeds of each setting."""
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        if not seeds:
            raise ConfigError(f"sweep.seeds={self.seeds}: must be at least 1, or a list of seeds")
        return list(dict.fromkeys(seeds))


def load_cells(file: Path, assignments: Sequence[str]) -> list[Cell]:
    """Return the runs of a sweep's file, ``key=value`` strings being set in each.

    Raises:
        ConfigError: for the first thing that is wrong, in whatever run.
    """
    raw = read_toml(file)
    if "sweep" not in raw:
        raise ConfigError(f"{file} has no table [sweep]; `fedgraph-sim sweep --help` shows one")
    sweep = validated(Sweep, raw.pop("sweep"), "sweep")
    return list(_cells(raw, sweep, assignments))


def _cells(raw: Table, sweep: Sweep, assignments: Sequence[str]) -> Iterator[Cell]:
    axes, methods = sweep.axes, tuple(dict.fromkeys(sweep.methods)) or (None,)
    num_seeds = sweep.seeds if isinstance(sweep.seeds, int) else len(sweep.seeds)
    check_number_of_runs(f"sweep.seeds={sweep.seeds}", num_seeds, len(methods), *map(len, axes.values()))
    for values in product(*axes.values()):
        setting = dict(zip(axes, values, strict=True))
        for name in methods:
            for seed in sweep.all_seeds:
                tables = _tables(raw, sweep, name, {**setting, "seed": seed}, assignments)
                config = in_one_process(resolve(tables))
                labels = {key: str(value) for key, value in setting.items()}
                labels |= {"method": name or config.algorithm.name}
                yield Cell(labels=labels, seed=seed, config=config)


def _tables(raw: Table, sweep: Sweep, name: str | None, setting: dict[str, Value], assignments: Sequence[str]) -> Table:
    tables = copy.deepcopy(raw)
    texts = list(assignments)
    if name is not None:
        method = sweep.method.get(name, Method())
        change(tables, "algorithm", method.algorithm or name)
        texts = [*method.set, *texts]
    for key, value in setting.items():
        change(tables, key, value)
    for text in texts:
        change_by_text(tables, text)
    return tables
