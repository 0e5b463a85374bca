"""From a configuration to a run: everything that can be wrong is found before anything is written or started."""

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedgraph_sim.datasets.partitioners.whole import Whole
from fedgraph_sim.datasets.storage import INFO_FILE, Store, StoreInfo, prepare
from fedgraph_sim.engine.checks import (
    check_kind,
    check_protocol,
    check_run_folder,
    check_store,
    check_training,
)
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.files import CONFIG_FILE, PARTITION_FILE, write_text
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.placement import Node, Placement, place, this_machine
from fedgraph_sim.engine.report import Event, Outcome, RolledBack, RoundReport
from fedgraph_sim.engine.writing import Writing
from fedgraph_sim.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where a run finds and leaves files; all absolute.

    `data` holds raw data sets, if the user has them; `store` is a partition that was made before, perhaps elsewhere.
    """

    run: Path
    cache: Path
    data: Path | None
    store: Path | None = None


def load_partition(config: RunConfig, folders: Folders) -> tuple[Store[Any], bool]:
    """Return the store of the configured partition, made now if need be, and whether it was there already."""
    if folders.store is not None:
        store = config.dataset.kind.store(folders.store)
        check_store(config, store)
        return store, True
    return prepare(
        config.dataset,
        config.split,
        config.partition,
        num_clients=config.clients,
        seed=config.partition_seed,
        data_dir=folders.data,
        cache_dir=folders.cache,
    )


def prepare_run(
    config: RunConfig,
    folders: Folders,
    *,
    inline: bool,
    started: float,
    force: bool = False,
    resume: bool = False,
    address: str | None = None,
) -> "Run":
    """Check everything, load and partition the data, connect to Ray unless `inline`, and decide the placement.

    `started` is the epoch second at which the user's command began, `address` that of a Ray cluster to join.
    With `resume` the run's folder is that of an unfinished run, which goes on from its latest checkpoint.

    Raises:
        ConfigError: for whatever the user can mend; the run's folder has not been touched then.
    """
    if not resume:
        check_run_folder(folders.run, force=force)
    check_kind(config)
    check_protocol(config)
    config = as_run(config)
    with ThreadPoolExecutor(1) as pool:
        # The data are read and partitioned while Ray's own processes start.
        timed = pool.submit(_timed_partition, config, folders)
        nodes = [this_machine()] if inline else _connect(address)
        store, seconds_partition = timed.result()
    check_training(config, store)
    job = Job(
        config=config,
        store=store.folder,
        folder=folders.run,
        placement=_placement(store.info, config, nodes, inline=inline),
        started=started,
        seconds_partition=seconds_partition,
        inline=inline,
        resume=_checkpoint(folders.run, config, store.folder) if resume else None,
    )
    if not resume:
        _make_folder(job, force=force)
    return Run(job, store.info, Writing(job.folder))


class Run:
    """A run that has passed all checks and has its folder. `events` starts it."""

    def __init__(self, job: Job, info: StoreInfo, writing: Writing) -> None:
        self.job = job
        self.info = info
        self._writing = writing
        self._coordinator: Any = None
        self._stopping = False

    def events(self) -> Iterator[Event]:
        """Run, and yield events as they happen; the last one is the outcome."""
        with self._writing:
            yield from self._in_this_process() if self.job.inline else self._on_actors()

    def stop(self) -> None:
        """Ask the run to end after the round that is under way, or before the first one."""
        self._stopping = True
        if self._coordinator is not None:
            self._coordinator.stop() if self.job.inline else self._coordinator.stop.remote()

    def _follow(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        if self._stopping:  # asked for while there was nobody to ask
            self.stop()

    def _in_this_process(self) -> Iterator[Event]:
        from fedgraph_sim.engine.cohort import InlineCohort
        from fedgraph_sim.engine.coordinator import Coordinator
        from fedgraph_sim.engine.host import host_of

        actors = self.job.placement.actors
        use_cuda = self.job.config.engine.gpus_per_client != 0
        hosts = [host_of(self.job, place, use_cuda=use_cuda) for place in range(len(actors))]
        self._follow(Coordinator(self.job, InlineCohort(actors, hosts)))
        yield from self._coordinator.run()

    def _on_actors(self) -> Iterator[Event]:
        import ray
        from ray.exceptions import RayActorError

        from fedgraph_sim.engine.actors import start_coordinator

        reports = self._earlier_reports()
        self._follow(start_coordinator(self.job))
        try:
            for reference in self._coordinator.run.options(num_returns="streaming").remote():
                event = ray.get(reference)
                yield event
                if isinstance(event, RoundReport):
                    reports.append(event.without_clients())
                elif isinstance(event, RolledBack):
                    reports = [report for report in reports if report.round <= event.round]
        except RayActorError as error:
            yield self._without_coordinator(reports, str(error))
        finally:
            ray.kill(self._coordinator)  # and with it the client actors, which it owns
            self._coordinator = None

    def _earlier_reports(self) -> list[RoundReport]:
        """Return the reports of the rounds before the checkpoint that the run goes on from."""
        from fedgraph_sim.engine.checkpoint import round_of
        from fedgraph_sim.engine.run_tables import reports_until

        return [] if self.job.resume is None else reports_until(self.job.folder, round_of(self.job.resume))

    def _without_coordinator(self, reports: list[RoundReport], details: str) -> Outcome:
        """Return the outcome of a run whose coordinator died, from what it had told, and write its summary."""
        from fedgraph_sim.engine.checkpoint import FOLDER, latest_checkpoint
        from fedgraph_sim.engine.summary import summary_of_reports

        kept = latest_checkpoint(self.job.folder / FOLDER)
        what = (
            f"`fedgraph-sim run --resume {self.job.folder}` goes on from {kept.name}"
            if kept is not None
            else ("the tables are as of a few seconds before; with engine.checkpoint_every the run could go on")
        )
        error = f"the coordinator died after round {len(reports)}; {what}"
        summary = summary_of_reports(self.job, self.info, reports, error=error)
        write_text(self.job.folder / "summary.json", json.dumps(summary, indent=2) + "\n")
        return Outcome(status="failed", summary=summary, error=error, details=details)


def as_run(config: RunConfig) -> RunConfig:
    """Return the configuration that the run's folder holds: where data is pooled, one client holds the whole graph."""
    return config.model_copy(update={"clients": 1, "partition": Whole()}) if config.algorithm.pooled else config


def config_toml(config: RunConfig) -> str:
    """Return the resolved configuration as TOML: the file that repeats the run."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def _checkpoint(folder: Path, config: RunConfig, store: Path) -> Path:
    """Return the latest checkpoint in a run's folder, read and found good."""
    from fedgraph_sim.engine.checkpoint import FOLDER, latest_checkpoint, load_checkpoint, run_key
    from fedgraph_sim.engine.run_tables import reports_until

    path = latest_checkpoint(folder / FOLDER)
    if path is None:
        raise ConfigError(f"{folder} has no checkpoint to go on from; engine.checkpoint_every makes a run write them")
    checkpoint = load_checkpoint(path, key=run_key(config, store))
    clients = range(config.dataset.kind.store(store).info.num_clients)
    if not 0 < checkpoint.round <= config.num_rounds or list(checkpoint.clients) != list(clients):
        raise ConfigError(f"the checkpoint {path} has not the rounds or the clients of the run; delete it")
    reports_until(folder, checkpoint.round, checkpoint.tables)
    partition = folder / PARTITION_FILE
    if not partition.exists() or partition.read_bytes() != (store / INFO_FILE).read_bytes():
        raise ConfigError(f"{partition} is not that of the run's partition; copy {store / INFO_FILE} there")
    return path


def _make_folder(job: Job, *, force: bool) -> None:
    if force and job.folder.exists():
        Writing(job.folder).end()
        shutil.rmtree(job.folder, ignore_errors=True)
    try:
        job.folder.mkdir(parents=True)
        write_text(job.folder / CONFIG_FILE, config_toml(job.config))
        write_text(job.folder / PARTITION_FILE, (job.store / INFO_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot write to {job.folder}: {error.strerror}; choose another folder") from error


def _timed_partition(config: RunConfig, folders: Folders) -> tuple[Store[Any], float]:
    begin = time.perf_counter()
    store, _ = load_partition(config, folders)
    return store, time.perf_counter() - begin


def _connect(address: str | None) -> list[Node]:
    from fedgraph_sim.engine.cluster import connect

    return connect(address)


def _placement(info: StoreInfo, config: RunConfig, nodes: list[Node], *, inline: bool) -> Placement:
    engine = config.engine
    if inline:  # one process has all GPUs, and reserves none
        engine = engine.model_copy(update={"gpus_per_client": "auto", "server_gpus": 0})
    return place(info.sizes, engine, nodes)
