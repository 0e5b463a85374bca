"""Reads the run folders that are already there."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.files import CONFIG_FILE


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that was completed: its folder, its resolved configuration, and what ``summary.json`` says."""

    folder: Path
    config: RunConfig
    summary: Mapping[str, Any]


def finished_runs(folder: Path) -> Iterator[Finished]:
    """Yield the completed runs whose folders lie in `folder`; what cannot be read is none."""
    for path in sorted(folder.glob(f"*/{CONFIG_FILE}")):
        try:
            summary = json.loads((path.parent / "summary.json").read_bytes())
            if summary["status"] == "completed":
                yield Finished(folder=path.parent, config=load_config(path, {}, ()), summary=summary)
        except (OSError, ValueError, TypeError, KeyError):  # of JSON, and ConfigError
            continue


def other_algorithms(folder: Path, config: RunConfig) -> dict[str, Finished]:
    """Return, by algorithm, the latest of the runs in `folder` that differ from `config` in it, or also in [engine]."""
    same = config.model_dump_json(exclude={"algorithm", "engine"})
    runs = [
        run
        for run in finished_runs(folder)
        if run.config.algorithm.name != config.algorithm.name
        and run.config.model_dump_json(exclude={"algorithm", "engine"}) == same
    ]
    latest = sorted(runs, key=lambda run: (run.folder / "summary.json").stat().st_mtime)
    return {run.config.algorithm.name: run for run in latest}
