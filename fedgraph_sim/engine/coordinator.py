"""The coordinator: owns the round loop, the server's state, the ledger and the recorder."""

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from fedgraph_sim.datasets.store import PartitionStore
from fedgraph_sim.engine.checkpoint import save_checkpoint
from fedgraph_sim.engine.cohort import Cohort
from fedgraph_sim.engine.evaluation import Evaluator
from fedgraph_sim.engine.federation import Federation, Task
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.memory import keep_large_blocks, peak_memory
from fedgraph_sim.engine.recorder import Recorder
from fedgraph_sim.engine.report import Event, Outcome, RoundReport, Started
from fedgraph_sim.engine.summary import profile, seconds, summarize
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.errors import RunError

MAX_LOSS = 1e6
"""A mean loss beyond this is divergence: the right answer's probability is then far below what a float can hold."""


@dataclass(frozen=True, kw_only=True)
class _Ending:
    status: Literal["completed", "interrupted", "failed"]
    error: str = ""
    details: str = ""


class Coordinator:
    """Runs one job over a cohort of clients; yields an event when it starts, after each round, and at the end."""

    def __init__(self, job: Job, cohort: Cohort) -> None:
        keep_large_blocks()
        torch.set_num_threads(1)  # so that reductions run in one order, whatever process the coordinator lives in
        store = PartitionStore(job.store)
        self._job = job
        self._cohort = cohort
        self._info = store.info
        self._ledger = Ledger()
        self._reports: list[RoundReport] = []
        self._seconds_recorder: list[float] = []
        self._stop = threading.Event()
        config = job.config
        self._evaluator = Evaluator(config.algorithm, config.evaluation.protocol, store, config.link_split)
        self._fed = Federation(
            cohort,
            num_clients=self._info.num_clients,
            task=Task(num_features=self._info.num_features, num_classes=self._info.num_classes),
            seed=job.config.seed,
            fraction=job.config.fraction,
            ledger=self._ledger,
        )

    def stop(self) -> None:
        """Ask the run to end after the round that is under way."""
        self._stop.set()

    def run(self, *, before: Callable[[], None] = lambda: None) -> Iterator[Event]:
        """Wait for `before`, then run all rounds; the results so far are written and an outcome comes last, always."""
        recorder = Recorder(self._job.folder, self._ledger)
        ready = time.time()
        ending = _Ending(status="completed")
        try:
            before()
            ready = time.time()
            yield Started(hosts=self._cohort.hosts)
            for report in self._rounds():
                begin = time.perf_counter()
                recorder.record(report)
                self._seconds_recorder.append(time.perf_counter() - begin)
                yield report
            if len(self._reports) < self._job.config.rounds:
                ending = _Ending(status="interrupted")
        except RunError as error:
            ending = _Ending(status="failed", error=str(error), details=error.details)
        except Exception as error:
            message = f"round {self._fed.round}: {type(error).__name__}: {error}"
            ending = _Ending(status="failed", error=message, details=traceback.format_exc())
        except BaseException:  # a second Ctrl-C ends an inline run here
            recorder.flush()
            raise
        summary = self._summary(ending, ready)
        try:
            recorder.close(summary)
        except OSError as error:
            message = f"cannot write the results to {self._job.folder}: {error.strerror}"
            ending = _Ending(status="failed", error=message)
        yield Outcome(status=ending.status, summary=summary, error=ending.error, details=ending.details)

    def _rounds(self) -> Iterator[RoundReport]:
        config, fed, algorithm = self._job.config, self._fed, self._job.config.algorithm
        server = algorithm.setup(fed)
        for number in range(1, config.rounds + 1):
            if self._stop.is_set():
                return
            server, report = self._round(number, server)
            self._reports.append(report)
            yield report
            self._check_losses(report)
            every = config.engine.checkpoint_every
            if every and (number % every == 0 or number == config.rounds):
                folder = self._job.folder / "checkpoints"
                save_checkpoint(folder, round=number, server=server, clients=self._cohort.states())

    def _round(self, number: int, server: Tree) -> tuple[Tree, RoundReport]:
        config, fed, ledger = self._job.config, self._fed, self._ledger
        up, down = ledger.total("up", "train"), ledger.total("down", "train")
        begin = time.perf_counter()
        fed.begin(round=number, kind="train")
        server = config.algorithm.round(fed, server)
        compute, transport, trained = fed.seconds_compute, fed.seconds_transport, time.perf_counter()
        evaluation = None
        if number % config.evaluation.every == 0 or number == config.rounds:
            fed.begin(round=number, kind="eval")
            evaluation = self._evaluator.evaluate(fed, server)
        end = time.perf_counter()
        report = RoundReport(
            round=number,
            participants=fed.sample(),
            seconds=end - begin,
            seconds_compute=compute,
            seconds_transport=transport,
            seconds_server=trained - begin - compute - transport,
            seconds_evaluation=end - trained,
            bytes_up=ledger.total("up", "train") - up,
            bytes_down=ledger.total("down", "train") - down,
            evaluation=evaluation,
        )
        return server, report

    def _check_losses(self, report: RoundReport) -> None:
        evaluation = report.evaluation
        if evaluation is None:
            return
        for name, values in evaluation.values.items():
            counted = evaluation.counts[name] > 0
            bad = counted & ~(np.abs(values) <= MAX_LOSS)
            if bad.any():
                where = int(np.flatnonzero(bad)[0])
                who = f"client {evaluation.clients[where]}" if evaluation.clients else "the server's model"
                raise RunError(
                    f"training diverged: {who}, round {report.round}, {name} is {values[where]:.3g}; lower algorithm.lr"
                )

    def _summary(self, ending: _Ending, ready: float) -> dict[str, Any]:
        status = {"status": ending.status} | ({"error": ending.error} if ending.error else {})
        return (
            status
            | summarize(self._job, self._info, self._reports, self._ledger)
            | {"seconds": seconds(self._job, self._reports, ready=ready, now=time.time())}
            | {"profile": profile(self._reports, self._seconds_recorder)}
            | {"padding": [round(host.padding, 4) for host in self._cohort.hosts]}
            | {"peak_memory": {"coordinator": peak_memory(), "actors": list(self._cohort.peak_memory())}}
        )
