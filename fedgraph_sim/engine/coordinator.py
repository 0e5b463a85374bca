"""The coordinator: owns the round loop, the server's state, the ledger and the recorder."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from fedgraph_sim.engine.checkpoint import save_checkpoint
from fedgraph_sim.engine.cohort import Cohort
from fedgraph_sim.engine.evaluation import Evaluator
from fedgraph_sim.engine.federation import Federation, Task
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.matrices import ClientMatrix, partition_matrices
from fedgraph_sim.engine.memory import keep_large_blocks, peak_memory
from fedgraph_sim.engine.recorder import Recorder
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.report import Event, Outcome, RoundReport, Started
from fedgraph_sim.engine.spread import brought
from fedgraph_sim.engine.summary import best_round, profile, seconds, summarize
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.errors import RunError

MAX_LOSS = 1e6
"""A mean loss beyond this is divergence: the right answer's probability is then far below what a float can hold."""


SHORT_ROUND = 0.5
"""Seconds up to which a round is reported only while the next one runs."""


@dataclass(frozen=True, kw_only=True)
class _Round:
    """A round whose evaluation may be under way."""

    number: int
    participants: tuple[int, ...]
    begin: float
    seconds_compute: float
    seconds_server: float
    bytes_up: int
    bytes_down: int
    matrices: Sequence[ClientMatrix]
    replies: Replies | None


_Reported = tuple[RoundReport, Sequence[ClientMatrix]]


@dataclass(frozen=True, kw_only=True)
class _Ending:
    status: Literal["completed", "interrupted", "failed"]
    error: str = ""
    details: str = ""


class Coordinator:
    """Runs one job over a cohort of clients; yields an event when it starts, after each round, and at the end."""

    def __init__(self, job: Job, cohort: Cohort) -> None:
        keep_large_blocks()
        sys.setswitchinterval(0.0005)  # the round loop is short work between waits, beside threads of Ray
        torch.set_num_threads(1)  # so that reductions run in one order, whatever process the coordinator lives in
        store = job.open_store()
        self._job = job
        self._cohort = cohort
        self._info = store.info
        self._ledger = Ledger()
        self._reports: list[RoundReport] = []
        self._seconds_recorder: list[float] = []
        self._described = False
        self._stop = threading.Event()
        config = job.config
        self._evaluator = Evaluator(config.algorithm, config.evaluation.protocol, store, config.link_split)
        self._fed = Federation(
            cohort,
            num_clients=self._info.num_clients,
            task=Task(
                num_features=self._info.num_features,
                num_classes=self._info.num_classes,
                client_graph=store.client_graph(),
            ),
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
            for report, matrices in self._rounds():
                begin = time.perf_counter()
                recorder.record(report, matrices)
                if self._best() is report:
                    recorder.keep_forecast(report)
                report = self._reports[-1] = report.without_forecast()
                self._seconds_recorder.append(time.perf_counter() - begin)
                yield report
            if len(self._reports) < self._job.config.num_rounds and not self._is_patient_no_more():
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

    def _rounds(self) -> Iterator[_Reported]:
        """Run the rounds; where they are short, one is reported while the clients are busy with the next."""
        config, fed = self._job.config, self._fed
        server = config.algorithm.setup(fed)
        fed.settle()
        waiting: _Round | None = None
        for number in range(1, config.num_rounds + 1):
            if self._stop.is_set() or self._is_patient_no_more():
                break
            begin = time.perf_counter()
            try:
                server, current = self._begin_round(number, server)
            except Exception:
                if waiting is not None:
                    with suppress(RunError):  # the evaluation under way came before what failed
                        fed.settle()
                    yield from self._report(waiting, end=begin)
                raise
            if waiting is not None:
                yield from self._report(waiting, end=begin)
            waiting = current
            every = config.engine.checkpoint_every
            due = every > 0 and (number % every == 0 or number == config.num_rounds)
            if due or config.evaluation.patience or time.perf_counter() - begin > SHORT_ROUND:
                yield from self._report(waiting)
                waiting = None
            if due:
                folder = self._job.folder / "checkpoints"
                save_checkpoint(folder, round=number, server=brought(server), clients=self._cohort.states())
        if waiting is not None:
            yield from self._report(waiting)

    def _begin_round(self, number: int, server: Tree) -> tuple[Tree, _Round]:
        """Train, and ask for the evaluation without waiting for it."""
        config, fed, ledger = self._job.config, self._fed, self._ledger
        up, down = ledger.total("up", "train"), ledger.total("down", "train")
        begin, begin_thread = time.perf_counter(), time.thread_time()
        fed.begin(round=number, kind="train")
        participants = fed.sample()
        server = config.algorithm.round(fed, server)
        seconds_server = time.thread_time() - begin_thread
        seconds_compute = fed.settle().get("train", 0.0)
        bytes_up, bytes_down = ledger.total("up", "train") - up, ledger.total("down", "train") - down
        fed.begin(round=number, kind="eval")
        evaluated = number % config.evaluation.every == 0 or number == config.num_rounds
        return server, _Round(
            number=number,
            participants=participants,
            begin=begin,
            seconds_compute=seconds_compute,
            seconds_server=seconds_server,
            bytes_up=bytes_up,
            bytes_down=bytes_down,
            matrices=self._matrices() if evaluated else (),
            replies=self._evaluator.begin(fed, server) if evaluated else None,
        )

    def _report(self, waiting: _Round, *, end: float | None = None) -> Iterator[_Reported]:
        """Wait for the evaluation and report the round, which lasted until `end`, or until now."""
        evaluation, seconds_evaluation = None, 0.0
        if end is None:
            self._fed.settle()
        if waiting.replies is not None:
            evaluation = self._evaluator.finish(waiting.replies)
            seconds_evaluation = waiting.replies.receipt()().seconds
        seconds = (time.perf_counter() if end is None else end) - waiting.begin
        known = waiting.seconds_compute + waiting.seconds_server + seconds_evaluation
        report = RoundReport(
            round=waiting.number,
            participants=waiting.participants,
            seconds=seconds,
            seconds_compute=waiting.seconds_compute,
            seconds_transport=max(0.0, seconds - known),
            seconds_server=waiting.seconds_server,
            seconds_evaluation=seconds_evaluation,
            bytes_up=waiting.bytes_up,
            bytes_down=waiting.bytes_down,
            evaluation=evaluation,
        )
        self._reports.append(report)
        yield report, waiting.matrices
        self._check_losses(report)

    def _is_patient_no_more(self) -> bool:
        """Tell whether the rounds since the best validation are as many as the user wants to wait."""
        patience = self._job.config.evaluation.patience
        if patience == 0 or not self._reports:
            return False
        best = self._best()
        return best is not None and self._reports[-1].round - best.round >= patience

    def _best(self) -> RoundReport | None:
        evaluated = [report for report in self._reports if report.evaluation is not None]
        return best_round(evaluated, f"val_{self._job.config.algorithm.metric}")

    def _matrices(self) -> Sequence[ClientMatrix]:
        """Return what the algorithm recorded in an evaluated round; the first time the partition's own come before."""
        recorded = self._fed.take_matrices()
        if not recorded:
            return ()
        described, self._described = self._described, True
        return recorded if described else [*partition_matrices(self._info), *recorded]

    def _check_losses(self, report: RoundReport) -> None:
        evaluation = report.evaluation
        if evaluation is None:
            return
        for name, values in evaluation.values.items():
            counted = evaluation.counts[name] > 0
            limit = MAX_LOSS if name.endswith("_loss") else np.finfo(np.float64).max
            bad = counted & ~(np.abs(values) <= limit)
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
