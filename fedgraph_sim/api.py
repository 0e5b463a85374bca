"""Runs from Python, in a script or a notebook; the same as ``fedgraph-sim run``."""

import copy
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedgraph_sim.configuration import cache_folder, change, read_toml, resolve
from fedgraph_sim.engine.checks import check_run_name
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import Outcome, RoundReport
from fedgraph_sim.errors import RunError
from fedgraph_sim.recipes import file_of
from fedgraph_sim.results.run_folder import RunFolder, load_run


def run(
    config: RunConfig | Mapping[str, Any] | str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    out: str | Path = "runs",
    force: bool = False,
    inline: bool = False,
    progress: bool = True,
    data_dir: str | Path | None = None,
) -> RunFolder:
    """Run a configuration, show a progress bar, and return the run's folder with its tables as DataFrames.

    `config` is a `RunConfig`, the nested tables of a TOML file, such a file, or ``recipe:NAME``; None is the default
    run. `changes` sets keys of it, as ``{"algorithm": "fedavg", "algorithm.lr": 0.1}``. The other arguments are the
    options of ``fedgraph-sim run``: the run's folder is ``out/name``, and with `inline` it needs no Ray.

    Raises:
        ConfigError: for input that cannot be used; nothing has been written then.
        RunError: where the run failed; the results so far are in its folder.
    """
    started = time.time()
    resolved = _resolved(config, changes or {})
    name = name or time.strftime(f"%Y%m%d-%H%M%S-{resolved.label}")
    check_run_name(name)
    folder = (Path(out) / name).absolute()
    folders = Folders(
        run=folder, cache=cache_folder(), data=Path(data_dir).absolute() if data_dir is not None else None
    )
    prepared = prepare_run(resolved, folders, inline=inline, force=force, started=started)
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True, markup=False, emoji=False))
    task = bar.add_task("", total=resolved.num_rounds)
    with bar if progress else nullcontext():
        for event in prepared.events():
            if isinstance(event, RoundReport):
                metric = f"val_{resolved.algorithm.metric}"
                value = event.evaluation.metrics.get(metric) if event.evaluation is not None else None
                shown = None if value is None else f"{metric.replace('_', ' ')} {value:.4f}"
                bar.update(task, advance=1, description=shown)
            elif isinstance(event, Outcome) and event.status == "failed":
                raise RunError(event.error, event.details)
    return load_run(folder)


def _resolved(config: RunConfig | Mapping[str, Any] | str | Path | None, changes: Mapping[str, Any]) -> RunConfig:
    if isinstance(config, RunConfig):
        if not changes:
            return config
        raw = config.model_dump(mode="json", exclude_none=True)
    elif isinstance(config, str | Path):
        raw = read_toml(file_of(config))
    else:
        raw = copy.deepcopy(dict(config or {}))
    for key, value in changes.items():
        change(raw, key, value)
    return resolve(raw)
