"""The round loop: training, evaluation behind it, and what is reported of a round."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.evaluation import Evaluator
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.errors import RunError

MAX_LOSS = 1e6
"""A mean loss beyond this is divergence: the right answer's probability is then far below what a float can hold."""


SHORT_ROUND = 0.5
"""Seconds up to which a round is reported only while the next one runs."""


@dataclass(frozen=True, kw_only=True)
class _Round:
    """A round whose evaluation may be under way; `server` is the state after it."""

    number: int
    participants: tuple[int, ...]
    begin: float
    seconds_compute: float
    seconds_server: float
    seconds_simulated: float
    bytes_up: int
    bytes_down: int
    matrices: Sequence[ClientMatrix]
    replies: Replies | None
    server: Tree


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A round that is over. `checkpoint` is the server's state after it where a checkpoint is due."""

    report: RoundReport
    participants: tuple[int, ...]
    matrices: Sequence[ClientMatrix]
    checkpoint: Tree = None


class Rounds:
    """Runs the rounds of `config` until the last one, or until `is_over` says so."""

    def __init__(self, config: RunConfig, fed: Federation, evaluator: Evaluator, is_over: Callable[[], bool]) -> None:
        self._config = config
        self._fed = fed
        self._evaluator = evaluator
        self._is_over = is_over

    def set_up(self) -> Tree:
        """Return the server's state before the first round."""
        server = self._config.algorithm.setup(self._fed)
        self._fed.settle()
        return server

    def run(self, server: Tree, *, after: int) -> Iterator[Finished]:
        """Run the rounds behind `after`; where they are short, one is reported while the clients do the next."""
        waiting: _Round | None = None
        for number in range(after + 1, self._config.num_rounds + 1):
            if self._is_over():
                break
            begin = time.perf_counter()
            try:
                current = self._begin(number, server)
            except Exception:
                if waiting is not None:
                    with suppress(RunError):  # the evaluation under way came before what failed
                        self._fed.settle()
                    yield from self._report(waiting, end=begin)
                raise
            if waiting is not None:
                yield from self._report(waiting, end=begin)
            waiting, server = current, current.server
            due = self._is_due(number)
            if due or self._config.evaluation.patience or time.perf_counter() - begin > SHORT_ROUND:
                yield from self._report(waiting, due=due)
                waiting = None
        if waiting is not None:
            yield from self._report(waiting, due=self._config.engine.checkpoint_every > 0)

    def _is_due(self, number: int) -> bool:
        """Tell whether a checkpoint is due after round `number`."""
        every = self._config.engine.checkpoint_every
        return every > 0 and (number % every == 0 or number == self._config.num_rounds or self._is_over())

    def _begin(self, number: int, server: Tree) -> _Round:
        """Train, and ask for the evaluation without waiting for it."""
        config, fed, ledger = self._config, self._fed, self._fed.ledger
        up, down = ledger.total("up", "train"), ledger.total("down", "train")
        begin, begin_thread, begin_here = time.perf_counter(), time.thread_time(), fed.seconds_here
        fed.begin(round=number, kind="train")
        participants = fed.sample()
        server = config.algorithm.round(fed, server)
        seconds_server = time.thread_time() - begin_thread - (fed.seconds_here - begin_here)
        seconds_compute = fed.settle().get("train", 0.0)
        bytes_up, bytes_down = ledger.total("up", "train") - up, ledger.total("down", "train") - down
        missing = fed.system.missing if fed.system is not None else ()
        fed.begin(round=number, kind="eval")
        evaluated = number % config.evaluation.every == 0 or number == config.num_rounds
        return _Round(
            number=number,
            participants=tuple(client for client in participants if client not in missing),
            begin=begin,
            seconds_compute=seconds_compute,
            seconds_server=seconds_server,
            seconds_simulated=fed.system.seconds if fed.system is not None else 0.0,
            bytes_up=bytes_up,
            bytes_down=bytes_down,
            matrices=fed.take_matrices() if evaluated else (),
            replies=self._evaluator.begin(fed, server) if evaluated else None,
            server=server,
        )

    def _report(self, waiting: _Round, *, end: float | None = None, due: bool = False) -> Iterator[Finished]:
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
            num_participants=len(waiting.participants),
            seconds=seconds,
            seconds_compute=waiting.seconds_compute,
            seconds_transport=max(0.0, seconds - known),
            seconds_server=waiting.seconds_server,
            seconds_evaluation=seconds_evaluation,
            seconds_simulated=waiting.seconds_simulated,
            bytes_up=waiting.bytes_up,
            bytes_down=waiting.bytes_down,
            evaluation=evaluation,
        )
        yield Finished(
            report=report,
            participants=waiting.participants,
            matrices=waiting.matrices,
            checkpoint=waiting.server if due else None,
        )


def check_losses(report: RoundReport) -> None:
    """Raise `RunError` where a loss says that training has diverged."""
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
