"""What is checked before anything is written or started; each failure is a ConfigError of one sentence."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.datasets.storage import Store
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.federation import sample
from fedgraph_sim.engine.files import CONFIG_FILE, PARTITION_FILE
from fedgraph_sim.errors import ConfigError

RUN_FILES = (
    CONFIG_FILE,
    PARTITION_FILE,
    "summary.json",
    "rounds.parquet",
    "clients.parquet",
    "ledger.parquet",
    "matrices.parquet",
    "steps.parquet",
    "forecasts.parquet",
    "forecasts",
    "events.out.tfevents.*",
    "checkpoints",
    "report.html",
    "*.tmp",
)
"""Everything that a run writes to its folder."""


def check_run_name(name: str) -> None:
    """Refuse a name that is not that of one folder."""
    printable = name.isprintable() and name.encode(errors="ignore").decode() == name
    if name in (".", "..") or Path(name).name != name or len(name.encode(errors="ignore")) > 200 or not printable:
        shown = ascii(name if len(name) < 40 else f"{name[:40]}...")
        raise ConfigError(f"--name {shown} cannot be a folder's name; choose a short one without / (--out says where)")


def check_run_folder(folder: Path, *, force: bool) -> None:
    """Refuse a folder that exists, unless forced and really a run's, and one that cannot be made."""
    if folder.exists():
        if not force:
            raise ConfigError(f"{folder} exists; choose another --name or --out, or replace it with --force")
        if not (folder / CONFIG_FILE).is_file():
            raise ConfigError(f"{folder} is not a run folder (it has no {CONFIG_FILE}), so --force does not replace it")
        for path in folder.iterdir():
            if not any(path.match(pattern) for pattern in RUN_FILES):
                raise ConfigError(f"{path} was not written by a run, so --force does not replace its folder; move it")
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Refuse a folder below one that is not a folder, or that may not be written to."""
    parent = folder
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise ConfigError(f"cannot create {folder}: {parent} is a file; choose another folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write to {folder}: no permission for {parent}; choose another folder")


def check_grid_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, for a grid of runs; and one that may not be written to."""
    if (folder / CONFIG_FILE).exists():
        raise ConfigError(f"{folder} is the folder of one run; choose another for the grid with --out")
    check_writable(folder)


def check_resumes(folder: Path, **given: Any) -> None:
    """Refuse to go on in a folder that is no unfinished run's, or as another run than it holds."""
    if changed := [key for key, value in given.items() if value]:
        raise ConfigError(f"--resume takes all but the data from {folder}; leave out {', '.join(changed)}")
    if not (folder / CONFIG_FILE).is_file():
        raise ConfigError(f"--resume {folder}: not a run folder (it has no {CONFIG_FILE})")
    try:
        status = json.loads((folder / "summary.json").read_bytes())["status"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if status == "completed":
        raise ConfigError(f"--resume {folder}: the run is complete; its results are there")


def check_kind(config: RunConfig) -> None:
    """Refuse an algorithm, a partitioner or a protocol that is not for the data set's kind of data."""
    dataset, kind = config.dataset, config.dataset.kind
    holds = f"but dataset.name={dataset.name} holds {kind.noun}"
    if config.algorithm.kind is not kind:
        raise ConfigError(
            f"algorithm.name={config.algorithm.name} is for {config.algorithm.kind.noun}, {holds}; choose another "
            "algorithm or data set"
        )
    if config.clients == 0 and kind.clients > 0:
        raise ConfigError("clients=0: must be greater than or equal to 1")
    if kind.noun not in config.partition.divides:
        raise ConfigError(
            f"partition.name={config.partition.name} divides {' or '.join(config.partition.divides)}, {holds}; "
            f"use {kind.partition}"
        )
    if config.evaluation.protocol not in kind.protocols:
        raise ConfigError(
            f"evaluation.protocol={config.evaluation.protocol} is not for {kind.noun}, which {dataset.name} holds; "
            f"use {' or '.join(kind.protocols)}"
        )


def check_protocol(config: RunConfig) -> None:
    """Refuse to judge a model on the whole graph where the algorithm has none for it."""
    algorithm = config.algorithm
    has_model = algorithm.has_global_model or algorithm.lends_models or algorithm.pooled
    if config.evaluation.protocol == "global" and not has_model:
        raise ConfigError(
            f"evaluation.protocol=global needs a global model, which {algorithm.name} has not; use local-mean"
        )


def check_store(config: RunConfig, store: Store[Any]) -> None:
    """Refuse a partition store that is damaged, or that was made of something else than `config` says."""
    if not store.is_complete():
        raise ConfigError(f"--store {store.folder} holds no whole partition; `fedgraph-sim partition` tells its folder")
    found = (store.info.dataset, store.info.partition, store.info.num_clients)
    wanted = (config.dataset.name, config.partition.name, config.clients or store.info.num_clients)
    if found != wanted:
        shown = [f"{dataset} by {partition} into {count}" for dataset, partition, count in (found, wanted)]
        raise ConfigError(f"--store {store.folder} holds {shown[0]} clients, but the run asks for {shown[1]}")


def check_training(config: RunConfig, store: Store[Any]) -> None:
    """Refuse a run with a round in which no participant has anything to train on."""
    if config.link_split is None:
        num_train, what, remedy = list(store.info.train), store.info.example, "raise split.train"
    else:
        num_train, what = _num_train_links(store, config.link_split), "link"
        remedy = "lower split.link_val or split.link_test"
    if all(num_train):
        return
    if not any(num_train):
        raise ConfigError(f"no client has a training {what}; {remedy}, or choose another partition")
    for number in range(1, config.num_rounds + 1):
        chosen = sample(len(num_train), fraction=config.fraction, seed=config.seed, round=number)
        if not any(num_train[client] for client in chosen):
            raise ConfigError(
                f"fraction={config.fraction:g} samples only clients without training {what}s in round {number} "
                f"({', '.join(map(str, chosen))}); raise fraction, {remedy}, or change the seed"
            )


def _num_train_links(store: Store[Any], split: LinkSplit) -> list[int]:
    graphs = (graph for client in range(store.info.num_clients) for graph in store.load([client]).values())
    return [int(np.count_nonzero(split.apply(graph).role == Role.TRAIN)) for graph in graphs]
