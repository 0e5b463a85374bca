"""The runs of a grid: what a paper's file or a sweep's makes of its settings, methods and seeds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import prod

from pydantic import BaseModel, ConfigDict

from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.launch import as_run
from fedgraph_sim.errors import ConfigError

ALL_CLIENTS = 10**6
"""More clients than there are sensors in any time series, where the data say how many clients there are."""

MAX_RUNS = 100_000
"""Runs of a grid, all of which are listed and resolved before the first begins."""


class Method(BaseModel):
    """How a method runs a setting: the algorithm, if not of the method's name, and what else of the setting changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    algorithm: str | None = None
    set: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a grid. `labels` name its row in the table, all cells having the same keys; `config` is what it runs.

    Cells with the same labels differ in their seed alone.
    """

    labels: Mapping[str, str]
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        """A name that no other cell of the grid has; under other options it is that of another configuration."""
        labels = (re.sub(r"[^\w.+-]+", "_", label) for label in self.labels.values())
        return f"{'-'.join(labels)}-seed-{self.seed}"

    @property
    def folder(self) -> str:
        """A folder's name that no other configuration has either."""
        digest = blake2b(self.config.model_dump_json().encode(), digest_size=4).hexdigest()
        return f"{self.name}-{digest}"


def in_one_process(config: RunConfig) -> RunConfig:
    """Return the configuration of a run of a grid, which has one process.

    Saying so in it makes ``run config.toml`` repeat the run to the last bit.
    """
    if config.engine.clients_per_actor == "auto":
        engine = config.engine.model_copy(update={"clients_per_actor": config.clients or ALL_CLIENTS})
        config = config.model_copy(update={"engine": engine})
    return as_run(config)


def check_number_of_runs(seeds: str, *sizes: int) -> None:
    """Refuse a grid with too many combinations; `seeds` is how the user gave those, and `sizes` all numbers of choices.

    Raises:
        ConfigError: that says so.
    """
    if prod(sizes) > MAX_RUNS:
        raise ConfigError(f"{seeds} makes a grid of {prod(sizes):,} runs; choose at most {MAX_RUNS:,} runs")
