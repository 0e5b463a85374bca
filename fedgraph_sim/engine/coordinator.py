"""The coordinator: owns the server's state, the ledger, the recorder and the checkpoints of a run."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from fedgraph_sim.engine.arrays import device_for
from fedgraph_sim.engine.checkpoint import (
    FOLDER,
    Checkpoint,
    SpreadRows,
    latest_checkpoint,
    load_checkpoint,
    run_key,
    save_checkpoint,
)
from fedgraph_sim.engine.cohort import Cohort
from fedgraph_sim.engine.evaluation import Evaluator
from fedgraph_sim.engine.federation import Federation, Task
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.matrices import partition_matrices
from fedgraph_sim.engine.memory import keep_large_blocks, peak_memory
from fedgraph_sim.engine.recorder import Recorder
from fedgraph_sim.engine.report import Event, Outcome, RolledBack, RoundReport, Started
from fedgraph_sim.engine.rounds import Finished, Rounds, check_losses
from fedgraph_sim.engine.run_tables import extents
from fedgraph_sim.engine.spread import Spread
from fedgraph_sim.engine.summary import best_round, profile, seconds, summarize
from fedgraph_sim.engine.system import system_of
from fedgraph_sim.engine.tree import Tree, tree_map
from fedgraph_sim.engine.writing import Writing
from fedgraph_sim.errors import RunError

MAX_LOSSES = 3
"""Times that actors may die between two checkpoints before the run is given up."""


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
        self._seconds_recorder: list[float] = []
        self._seconds_before = 0.0
        self._recorder = Recorder(job.folder, self._ledger, resumes=job.resume is not None)
        self._writing = Writing(job.folder, joins=True)
        self._stop = threading.Event()
        config = job.config
        evaluator = Evaluator(config.algorithm, config.evaluation.protocol, store, config.link_split)
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
            device=device_for(use_cuda=config.engine.server_gpus > 0),
            system=system_of(config.system, sizes=self._info.sizes, seed=config.seed),
        )
        self._key = run_key(config, job.store)
        self._rounds = Rounds(config, self._fed, evaluator, self._is_over)

    def stop(self) -> None:
        """Ask the run to end after the round that is under way."""
        self._stop.set()

    def run(self, *, before: Callable[[], None] = lambda: None) -> Iterator[Event]:
        """Wait for `before`, then run all rounds; the results so far are written and an outcome comes last, always."""
        with self._writing:
            yield from self._run(before)

    def _run(self, before: Callable[[], None]) -> Iterator[Event]:
        ready = time.time()
        ending = _Ending(status="completed")
        try:
            before()
            ready = time.time()
            yield Started(hosts=self._cohort.hosts)
            yield from self._train()
            if self._last_round < self._job.config.num_rounds and not self._is_patient_no_more():
                ending = _Ending(status="interrupted")
        except RunError as error:
            ending = _Ending(status="failed", error=str(error), details=error.details)
        except Exception as error:
            message = f"round {self._fed.round}: {type(error).__name__}: {error}"
            ending = _Ending(status="failed", error=message, details=traceback.format_exc())
        except BaseException:  # a second Ctrl-C ends an inline run here
            self._recorder.flush()
            raise
        summary = self._summary(ending, ready)
        try:
            self._recorder.close(summary)
        except OSError as error:
            message = f"cannot write the results to {self._job.folder}: {error.strerror or error}"
            ending = _Ending(status="failed", error=message)
        yield Outcome(status=ending.status, summary=summary, error=ending.error, details=ending.details)

    def _train(self) -> Iterator[Event]:
        """Run the rounds; where actors die, go back to the latest checkpoint and run on with others in their place."""
        path, lost, losses = self._job.resume, "", 0
        while True:
            try:
                server, after = self._start(path, again=losses > 0)
                if not lost:
                    self._seconds_before = sum(report.seconds for report in self._reports)
                if lost or path is not None:
                    yield RolledBack(round=after, reason=lost, num_bytes=self._num_bytes())
                for finished in self._rounds.run(server, after=after):
                    yield self._recorded(finished)
                    check_losses(finished.report)
                    if finished.checkpoint is not None:
                        self._save(finished.report.round, finished.checkpoint)
                        losses = 0
                return
            except Exception as error:
                lost, losses = self._cohort.lost(), losses + 1
                if not lost:
                    raise
                if not self._job.config.engine.checkpoint_every:
                    raise RunError(f"{self._where()}: {lost}; with engine.checkpoint_every it would go on") from error
                if losses > MAX_LOSSES:
                    raise RunError(f"{self._where()}: {lost}, for the {losses}th time since a checkpoint") from error
            self._cohort.replace_lost()
            path = latest_checkpoint(self._job.folder / FOLDER)

    @property
    def _reports(self) -> Sequence[RoundReport]:
        return self._recorder.reports

    @property
    def _last_round(self) -> int:
        return self._reports[-1].round if self._reports else 0

    def _where(self) -> str:
        return f"round {self._fed.round}" if self._fed.round else "set-up"

    def _num_bytes(self) -> int:
        return self._ledger.total("up", "train") + self._ledger.total("down", "train")

    def _start(self, path: Path | None, *, again: bool) -> tuple[Tree, int]:
        """Return the server's state to go on from, and its round; nothing else than it is left of an earlier try."""
        if path is None and not again:
            return self._rounds.set_up(), 0
        nothing = Checkpoint(round=-1, server=None, public=None, clients={client: {} for client in self._fed.clients})
        checkpoint = nothing if path is None else load_checkpoint(path, key=self._key)
        self._recorder.restore(checkpoint.round, checkpoint.forecast, checkpoint.tables)
        self._cohort.restore(checkpoint.clients)
        self._fed.restore(checkpoint.public, checkpoint.matrices)
        if path is None:
            return self._rounds.set_up(), 0

        def held(leaf: Any) -> Any:
            return self._cohort.hold(leaf.rows, leaf.clients) if isinstance(leaf, SpreadRows) else leaf

        return tree_map(held, checkpoint.server), checkpoint.round

    def _is_over(self) -> bool:
        """Tell whether no other round shall begin, however many there might be."""
        return self._stop.is_set() or self._is_patient_no_more()

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

    def _recorded(self, finished: Finished) -> RoundReport:
        begin = time.perf_counter()
        matrices = finished.matrices
        if matrices and not self._recorder.has_matrices:
            matrices = [*partition_matrices(self._info), *matrices]
        self._recorder.record(finished.report, finished.participants, matrices)
        best = self._best()
        if best is not None and best.round == finished.report.round:
            self._recorder.keep_forecast(finished.report)
        self._seconds_recorder.append(time.perf_counter() - begin)
        return finished.report.without_forecast()

    def _save(self, round: int, server: Tree) -> None:
        """Write a checkpoint, and before it the tables up to its round."""
        self._recorder.flush()
        checkpoint = Checkpoint(
            round=round,
            server=tree_map(_in_rows, server),
            public=self._fed.published,
            clients=self._cohort.states(),
            matrices=self._fed.waiting_matrices,
            forecast=self._recorder.forecast,
            tables=extents(self._job.folder),
        )
        save_checkpoint(self._job.folder / FOLDER, checkpoint, key=self._key)

    def _summary(self, ending: _Ending, ready: float) -> dict[str, Any]:
        status = {"status": ending.status} | ({"error": ending.error} if ending.error else {})
        return (
            status
            | summarize(self._job, self._info, self._reports, self._ledger)
            | {"seconds": seconds(self._job, self._reports, ready=ready, now=time.time(), before=self._seconds_before)}
            | {"profile": profile(self._reports, self._seconds_recorder)}
            | {"padding": [round(host.padding, 4) for host in self._cohort.hosts]}
            | {"peak_memory": {"coordinator": peak_memory(), "actors": list(self._cohort.peak_memory())}}
        )


def _in_rows(leaf: Any) -> Any:
    return SpreadRows(leaf.clients, leaf.tree()) if isinstance(leaf, Spread) else leaf
