"""Reads the run folders that are already there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.algorithm import Algorithm
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.files import CONFIG_FILE, SUMMARY_FILE
from fedgraph_sim.results.files import Summary, read_json


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that was completed: its folder, its resolved configuration, and what ``summary.json`` says."""

    folder: Path
    config: RunConfig
    summary: Mapping[str, Any]


def finished_runs(folder: Path) -> Iterator[Finished]:
    """Yield the completed runs whose folders lie in `folder`, each with a best round and the metric of its test.

    What cannot be read is none; both may be None, where nothing validates or tests.
    """
    for path in sorted(folder.glob(f"*/{CONFIG_FILE}")):
        run = _finished(path.parent)
        if run is not None:
            yield run


def _finished(folder: Path) -> Finished | None:
    try:
        summary = read_json(folder / SUMMARY_FILE, Summary)
        if summary.get("status") != "completed":
            return None
        config = load_config(folder / CONFIG_FILE, {}, ())
    except Exception:  # a neighbour's folder may hold anything: what is odd about it is no matter of this run
        return None
    complete = {"best_round", f"test_{config.algorithm.metric}"} <= summary.keys()
    return Finished(folder=folder, config=config, summary=summary) if complete else None


def other_algorithms(folder: Path, config: RunConfig) -> dict[str, Finished]:
    """Return, by algorithm, a run in `folder` that differs from `config` in the algorithm, or also in [engine].

    Of several it is the one that shares most parameters, of those the latest. Only those whose test has a value.
    """
    same = config.model_dump_json(exclude={"algorithm", "engine"})
    runs = [
        run
        for run in finished_runs(folder)
        if run.config.algorithm.name != config.algorithm.name
        and run.config.model_dump_json(exclude={"algorithm", "engine"}) == same
        and run.summary[f"test_{run.config.algorithm.metric}"] is not None
    ]

    def likeness(run: Finished) -> tuple[int, float]:
        return -len(other_parameters(run.config.algorithm, config.algorithm)), _written(run)

    return {run.config.algorithm.name: run for run in sorted(runs, key=likeness)}


def other_parameters(algorithm: Algorithm, reference: Algorithm) -> dict[str, Any]:
    """Return the parameters that both have and that are not the same."""
    shared = type(algorithm).model_fields.keys() & type(reference).model_fields.keys() - {"name"}
    values = {name: getattr(algorithm, name) for name in sorted(shared)}
    return {name: value for name, value in values.items() if value != getattr(reference, name)}


def _written(run: Finished) -> float:
    try:
        return (run.folder / SUMMARY_FILE).stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0
