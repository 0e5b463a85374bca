"""Runs on a cluster that this machine reaches as a Ray client (``ray://``): it holds the terminal, the head the run.

A client is no machine of the cluster, and the cluster sees none of its files. So the package, the configuration and the
partition travel to the head, all else happens there as after a command on the head, and the run's folder comes back.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgraph_sim.configuration import cache_folder
from fedgraph_sim.datasets.storage import StoreInfo
from fedgraph_sim.engine.checks import check_protocol, check_run_folder
from fedgraph_sim.engine.cluster import connect
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.launch import Folders, Run, as_run, load_partition, prepare_run
from fedgraph_sim.engine.report import Event, Outcome
from fedgraph_sim.errors import ConfigError, RunError
from fedgraph_sim.remote.bundle import STORE, bundle, upload_size
from fedgraph_sim.remote.parcel import pack, unpack

ON_HEAD = Path("~/fedgraph-sim-runs")
"""Folder of run folders on the head."""


class Head:
    """The body of an actor on the head, which runs what a client asks for; Ray's client has no streams, so it asks."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._events: Iterator[Event] = iter(())

    def prepare(self, config: RunConfig, name: str, *, force: bool, started: float) -> tuple[Job, StoreInfo] | str:
        """Check and place the run in the cluster; return what the client shows of it, or what the user must mend."""
        folders = Folders(
            run=ON_HEAD.expanduser() / name, cache=cache_folder(), data=None, store=Path(STORE).absolute()
        )
        try:
            self._run = prepare_run(config, folders, inline=False, force=force, started=started)
        except ConfigError as error:
            return str(error)
        self._events = self._run.events()
        return self._run.job, self._run.info

    def next(self) -> Event:
        """Return the next event of the run."""
        return next(self._events)

    def stop(self) -> None:
        """Ask the run to end after the round under way."""
        if self._run is not None:
            self._run.stop()

    def folder(self) -> str:
        """Return the run's folder as text."""
        assert self._run is not None
        return pack(self._run.job.folder)


class RemoteRun:
    """A run on the head as the client sees it; `job.folder` is where its results will be here."""

    def __init__(self, head: Any, job: Job, info: StoreInfo) -> None:
        self._head = head
        self.job = job
        self.info = info

    def events(self) -> Iterator[Event]:
        """Run, and yield events as they happen; the folder is here before the last one, the outcome."""
        import ray

        try:
            while True:
                event: Event = ray.get(self._head.next.remote())
                if isinstance(event, Outcome):
                    shutil.rmtree(self.job.folder, ignore_errors=True)  # it was there only if --force was
                    unpack(ray.get(self._head.folder.remote()), self.job.folder)
                    yield event
                    return
                yield event
        except ray.exceptions.RayActorError as error:
            raise RunError("the run's process on the head died", str(error)) from None
        finally:
            ray.kill(self._head)

    def stop(self) -> None:
        """Ask the run to end after the round that is under way."""
        self._head.stop.remote()


def prepare_remote_run(config: RunConfig, folders: Folders, *, force: bool, started: float, address: str) -> RemoteRun:
    """Partition here, connect to the cluster and let its head prepare the run.

    Raises:
        ConfigError: for whatever the user can mend; nothing has been started then.
    """
    check_run_folder(folders.run, force=force)
    check_protocol(config)
    config = as_run(config)
    store, _ = load_partition(config, folders)
    upload_size(store)
    with bundle(config, store) as working_dir:
        connect(address, runtime_env={"working_dir": str(working_dir)}, log_to_driver=False)
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Two threads: `stop` must get through while `next` waits.
        actor: Any = ray.remote(Head)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        head = actor.options(num_cpus=0, max_concurrency=2, scheduling_strategy=here).remote()
        answer = ray.get(head.prepare.remote(config, folders.run.name, force=force, started=started))
    if isinstance(answer, str):
        raise ConfigError(f"on the head: {answer}")
    job, info = answer
    return RemoteRun(head, replace(job, folder=folders.run), info)
