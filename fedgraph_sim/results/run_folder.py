"""A run's folder, read back: its configuration, its summary, and its tables as DataFrames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fedgraph_sim.engine.files import CONFIG_FILE, PARTITION_FILE, SUMMARY_FILE
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.results.files import (
    Partition,
    Summary,
    read_config,
    read_json,
    read_table,
    refuse_unknown_clients,
)
from fedgraph_sim.results.metrics import best_index, main_metric


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """What a run has written so far. Tables are read when they are first asked for; columns: docs/outputs.md.

    `config` is the resolved configuration as nested tables, `summary` is empty until the run has ended. A file that
    does not fit is refused with a `ConfigError` when it is read.
    """

    folder: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def status(self) -> str:
        """``completed``, ``interrupted``, ``failed``; or ``unfinished``: it is going on, or was killed."""
        return str(self.summary.get("status", "unfinished"))

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per round."""
        return self._table("rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client and evaluated round; empty where no client is asked."""
        return self._table("clients", "client")

    @cached_property
    def ledger(self) -> pd.DataFrame:
        """One row per message between server and client."""
        return self._table("ledger")

    @cached_property
    def matrices(self) -> pd.DataFrame:
        """One row per evaluated round, name and pair of clients; empty where the algorithm compares none."""
        return self._table("matrices", "row", "column")

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per evaluated round and step ahead; empty where nothing is forecast."""
        return self._table("steps")

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """One row per sensor and time step; empty where nothing is forecast."""
        return self._table("forecasts")

    @cached_property
    def partition(self) -> Mapping[str, Any]:
        """The figures of the partition; empty where the folder has none."""
        return read_json(self.folder / PARTITION_FILE, Partition)

    @property
    def num_clients(self) -> int:
        """The number of clients, which may follow from the data."""
        return int(self.partition.get("num_clients", self.get("clients")))

    @cached_property
    def metric(self) -> str:
        """What the run is judged by, such as ``accuracy``: the columns ``val_<metric>`` and ``test_<metric>``."""
        return main_metric([*self.summary, *self.rounds.columns])

    @property
    def best_round(self) -> int | None:
        """The round of the best validation metric, or the last evaluated one; None before the first."""
        if "best_round" in self.summary:
            return self.summary["best_round"]  # type: ignore[no-any-return]  # of JSON
        index = best_index(self.rounds, self.metric)
        return None if index is None else int(self.rounds["round"][index])

    def at_best_round(self, part: str) -> float | None:
        """Return ``<part>_<metric>`` at the best round; None where there is none."""
        name = f"{part}_{self.metric}"
        if name in self.summary:
            return self.summary[name]  # type: ignore[no-any-return]  # of JSON
        if name not in self.rounds or self.best_round is None:
            return None
        value = self.rounds.set_index("round")[name].get(self.best_round)
        return None if pd.isna(value) else float(value)

    @property
    def num_bytes(self) -> int:
        """Bytes that clients and server have sent to each other in all rounds, without set-up and evaluation."""
        return int(self.rounds["bytes_up"].sum() + self.rounds["bytes_down"].sum()) if len(self.rounds) else 0

    def get(self, key: str) -> Any:
        """Return the value of a key of the configuration, such as ``algorithm.lr``; None where it has no such key.

        A table stands for its name: ``algorithm`` is ``algorithm.name``.
        """
        value: Any = self.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value.get("name") if isinstance(value, Mapping) else value

    def _table(self, name: str, *clients: str) -> pd.DataFrame:
        path = self.folder / f"{name}.parquet"
        table = read_table(path, name)
        if clients:
            refuse_unknown_clients(table, clients, self.num_clients, path)
        return table


def load_run(folder: str | Path) -> RunFolder:
    """Return the run whose folder this is, as far as it has come.

    Raises:
        ConfigError: where `folder` is not a run's, or cannot be read.
    """
    path = Path(folder)
    try:
        config = read_config(path / CONFIG_FILE)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is not a run folder: it has no {CONFIG_FILE}") from error
    return RunFolder(folder=path, config=config, summary=read_json(path / SUMMARY_FILE, Summary))


def find_runs(paths: Sequence[Path]) -> list[RunFolder]:
    """Return the runs that the paths name: run folders, or folders of run folders, each run once.

    Raises:
        ConfigError: for a path that is neither.
    """
    found: dict[Path, RunFolder] = {}
    for path in paths:
        inner = (
            [path] if (path / CONFIG_FILE).is_file() else sorted(each.parent for each in path.glob(f"*/{CONFIG_FILE}"))
        )
        if not inner:
            raise ConfigError(f"{path} is neither a run folder nor a folder of run folders")
        found |= {each.resolve(): load_run(each) for each in inner}
    return list(found.values())
