"""Runs as jobs of a Ray cluster, through Ray's job submission SDK: all that is needed is the head's dashboard."""

import asyncio
import logging
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedgraph_sim import __version__
from fedgraph_sim.engine.cluster import NOT_FOUND, check_reachable, has_token
from fedgraph_sim.errors import ConfigError, RunError
from fedgraph_sim.remote.bundle import bundle
from fedgraph_sim.remote.parcel import unpack

DEFAULT_ADDRESS = "http://127.0.0.1:8265"
"""Where a head's dashboard listens, also at the near end of a tunnel to it."""
SECONDS_TO_STOP = 120
"""Time that a run has to end after the round under way, before Ray kills it."""
_POLL = 0.3


@dataclass(frozen=True, kw_only=True)
class JobInfo:
    """A run on a cluster as Ray knows it; `folder` is that of its results, on the head."""

    name: str
    status: str
    message: str
    started: datetime | None
    seconds: float
    folder: str
    exit_code: int | None


class Jobs:
    """The runs that were submitted to one cluster."""

    def __init__(self, address: str) -> None:
        if not address.startswith(("http://", "https://")):
            raise ConfigError(f"--address {address} is no dashboard of a Ray head; it looks like {DEFAULT_ADDRESS}")
        check_reachable(address)
        if has_token():
            os.environ.setdefault("RAY_AUTH_MODE", "token")  # a head that wants none does not mind
        os.environ["RAY_API_SERVER_ADDRESS"] = address  # Ray takes the environment's word over an argument's
        from ray.job_submission import JobSubmissionClient

        for name in (
            "ray.dashboard.modules.dashboard_sdk",
            "ray.dashboard.modules.job.sdk",
            "ray._private.runtime_env.packaging",
        ):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._address = address
        with self._asking():
            self._client = JobSubmissionClient(address)

    def submit(self, name: str, working_dir: Path, arguments: Sequence[str], *, folder: str) -> None:
        """Start ``fedgraph-sim`` with `arguments` on the head, in a copy of `working_dir`, as the job `name`.

        Raises:
            ConfigError: where the cluster has a job of this name.
        """
        known = self.list()
        if any(job.name == name for job in known):
            raise ConfigError(f"--name {name}: the cluster has a job of this name; choose another")
        self._start(name, working_dir, ["fedgraph_sim", *arguments], {"kind": "run", "folder": folder, "name": name})

    def list(self) -> list[JobInfo]:
        """Return the runs, oldest first."""
        with self._asking():
            jobs = self._client.list_jobs()
        ours = [_info(job) for job in jobs if job.metadata and job.metadata.get("kind") == "run" and _is_ours(job)]
        return sorted(ours, key=lambda job: job.started or datetime.max)

    def info(self, name: str) -> JobInfo:
        """Return the run `name`. Raises `ConfigError` where there is none."""
        for job in (jobs := self.list()):
            if job.name == name:
                return job
        known = ", ".join(job.name for job in jobs) or "none"
        raise ConfigError(f"the cluster at {self._address} has no run {name}; it has: {known}")

    def logs(self, name: str) -> str:
        """Return what the run has printed so far."""
        with self._asking():
            return str(self._client.get_job_logs(self.info(name).name))

    def follow(self, name: str, show: Callable[[str], None]) -> JobInfo:
        """Show what the run prints until it has ended."""
        self.info(name)

        async def tail() -> None:
            async for lines in self._client.tail_job_logs(name):
                show(lines)

        with self._asking():
            asyncio.run(tail())
        self._wait(name)
        return self.info(name)

    def stop(self, name: str) -> bool:
        """Ask the run to end after the round under way; tell whether it was running."""
        self.info(name)
        with self._asking():
            return bool(self._client.stop_job(name))

    def fetch(self, name: str, folder: Path) -> None:
        """Bring the run's folder here, as `folder`. Raises `RunError` where that fails."""
        remote, fetcher = self.info(name).folder, f"{name}-fetch-{uuid4().hex[:8]}"
        with bundle() as working_dir:
            self._start(fetcher, working_dir, ["fedgraph_sim.remote.parcel", remote], {"kind": "fetch"})
        self._wait(fetcher)
        with self._asking():
            text = self._client.get_job_logs(fetcher)
            failed = self._client.get_job_status(fetcher) != "SUCCEEDED"
            self._client.delete_job(fetcher)
        if failed:
            raise RunError(f"{name}: {text.strip().splitlines()[-1]}")
        unpack(text, folder)

    def _start(self, name: str, working_dir: Path, module: Sequence[str], metadata: dict[str, str]) -> None:
        # The run itself handles the signal; Ray's own patience is three seconds.
        environment = {"RAY_JOB_STOP_WAIT_TIME_S": str(SECONDS_TO_STOP)}
        with self._asking():
            self._client.submit_job(
                submission_id=name,
                entrypoint=shlex.join(["exec", "python", "-m", *module]),  # no shell between Ray's signal and the run
                runtime_env={"working_dir": str(working_dir), "env_vars": environment},
                metadata=metadata | {"fedgraph-sim": __version__},
            )

    def _wait(self, name: str) -> None:
        while True:
            with self._asking():
                if self._client.get_job_status(name).is_terminal():
                    return
            time.sleep(_POLL)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn what can go wrong between here and the head into one sentence."""
        from ray.exceptions import AuthenticationError
        from requests.exceptions import RequestException

        try:
            yield
        except AuthenticationError:
            reason = "refuses the token that was found here" if has_token() else f"wants a token, and {NOT_FOUND}"
            raise ConfigError(f"the Ray head at {self._address} {reason}") from None
        except (ConnectionError, RequestException) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"the Ray head at {self._address} cannot be asked ({reason})") from error
        except RuntimeError as error:  # an answer of the head
            raise RunError(f"the Ray head at {self._address}: {str(error).splitlines()[0]}", str(error)) from error


def _is_ours(job: Any) -> bool:
    return "fedgraph-sim" in job.metadata


def _info(job: Any) -> JobInfo:
    end = job.end_time or time.time() * 1000
    return JobInfo(
        name=job.submission_id,
        status=str(job.status.value),
        message=(job.message or "").strip(),
        started=datetime.fromtimestamp(job.start_time / 1000) if job.start_time else None,
        seconds=(end - job.start_time) / 1000 if job.start_time else 0.0,
        folder=job.metadata["folder"],
        exit_code=job.driver_exit_code,
    )
