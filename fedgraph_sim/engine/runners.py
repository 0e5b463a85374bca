"""Many runs, several at a time: processes that stay warm and each hold one whole run after another.

A fresh actor takes seconds to import what a run needs, and most runs of a grid are not much longer than that. So a run
is not spread over actors here: all its clients live in one process, and there are as many processes as the machine
takes.
"""

import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedgraph_sim.counts import counted
from fedgraph_sim.engine.checkpoint import FOLDER, latest_checkpoint
from fedgraph_sim.engine.config import EngineConfig, RunConfig
from fedgraph_sim.engine.launch import Folders, Run, prepare_run
from fedgraph_sim.engine.placement import place
from fedgraph_sim.engine.report import Event, Outcome
from fedgraph_sim.errors import ConfigError, RunError

FEW_ROUNDS = 200
"""Rounds of all runs together that are over before Ray and its processes would have started, on graphs like Cora."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run that nobody has prepared yet; its folder is gone on from if it has a checkpoint, and else replaced."""

    config: RunConfig
    folders: Folders


class Runner:
    """Runs one plan after another in its process."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self.stopping = False

    def run(self, plan: Plan) -> Iterator[Event]:
        """Prepare and run, and yield the events; the last one is the outcome, whatever happens."""
        try:
            resume = latest_checkpoint(plan.folders.run / FOLDER) is not None
            self._run = prepare_run(
                plan.config, plan.folders, inline=True, force=True, resume=resume, started=time.time()
            )
            if self.stopping:
                self._run.stop()
            yield from self._run.events()
        except ConfigError as error:
            yield _failed(str(error))
        except Exception as error:
            yield _failed(f"{type(error).__name__}: {error}", traceback.format_exc())
        finally:
            self._run = None

    def ready(self) -> None:
        """Return, as soon as the process is there."""

    def stop(self) -> None:
        """Ask the run to end after the round that is under way, and those after it before their first."""
        self.stopping = True
        if self._run is not None:
            self._run.stop()


class InThisProcess:
    """Runs all plans in this process, one after another."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._plans = plans
        self._runner = Runner()

    def events(self) -> Iterator[tuple[int, Event]]:
        """Run, and yield events with the number of their plan."""
        for number, plan in enumerate(self._plans):
            if not self._runner.stopping:
                yield from ((number, event) for event in self._runner.run(plan))

    def stop(self) -> None:
        """Ask to end after the round that is under way."""
        self._runner.stop()


class OnRunners:
    """Runs the plans in processes of this machine, each in the one that is free first."""

    def __init__(self, plans: Sequence[Plan], num_runners: int | None) -> None:
        from fedgraph_sim.engine.cluster import connect, this_node

        connect()
        engine = EngineConfig(clients_per_actor="auto" if num_runners is None else 1)
        placement = place([1] * min(num_runners or len(plans), len(plans)), engine, [this_node()])
        self.num_runners = len(placement.actors)
        self._plans = plans
        self._resources = {"num_cpus": placement.cpus, "num_gpus": placement.gpus}
        self._runners: list[Any] = []
        self._busy: dict[Any, tuple[int, Any]] = {}
        self._stopping = False

    def events(self) -> Iterator[tuple[int, Event]]:
        """Run, and yield events with the number of their plan; a runner that dies is replaced, and its run failed."""
        import ray

        try:
            yield from self._events()
        finally:
            for runner in self._runners:
                ray.kill(runner)  # gives its CPUs and GPUs back at once

    def _events(self) -> Iterator[tuple[int, Event]]:
        import ray
        from ray.exceptions import RayActorError

        free = [self._start() for _ in range(self.num_runners)]
        self._wait(free)
        waiting = list(enumerate(self._plans))[::-1]
        while self._busy or (waiting and not self._stopping):
            while free and waiting and not self._stopping:
                number, plan = waiting.pop()
                runner = free.pop()
                self._busy[runner.run.options(num_returns="streaming").remote(plan)] = number, runner
            stream: Any = ray.wait(list(self._busy), num_returns=1)[0][0]
            number, runner = self._busy[stream]
            try:
                event: Event = ray.get(next(stream))
            except RayActorError as error:
                runner = self._start()
                event = _failed("the process of the run died", str(error))
            if isinstance(event, Outcome):
                del self._busy[stream]
                free.append(runner)
            yield number, event

    def stop(self) -> None:
        """Ask to end after the rounds that are under way."""
        self._stopping = True
        for _, runner in self._busy.values():
            runner.stop.remote()

    def _wait(self, runners: list[Any]) -> None:
        import ray
        from ray.exceptions import GetTimeoutError

        from fedgraph_sim.engine.ray_cohort import START_TIMEOUT

        try:
            ray.get([runner.ready.remote() for runner in runners], timeout=START_TIMEOUT)
        except GetTimeoutError:
            raise RunError(
                f"{counted(len(runners), 'process')} did not start within {START_TIMEOUT:.0f} s; another job may hold "
                "the CPUs or GPUs: see `ray status`"
            ) from None

    def _start(self) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Two threads: `stop` must get through while `run` is under way.
        actor: Any = ray.remote(Runner)
        runner = actor.options(max_concurrency=2, scheduling_strategy=here, **self._resources).remote()
        self._runners.append(runner)
        return runner


def run_all(plans: Sequence[Plan], num_runners: int | None) -> InThisProcess | OnRunners:
    """Return what runs `plans`, at most `num_runners` at a time.

    None is as many as CPUs, GPUs and memory take, or one in this process where there are only few rounds to run.
    """
    few = num_runners is None and sum(plan.config.num_rounds for plan in plans) <= FEW_ROUNDS
    return InThisProcess(plans) if few or num_runners == 1 or len(plans) == 1 else OnRunners(plans, num_runners)


def _failed(error: str, details: str = "") -> Outcome:
    return Outcome(status="failed", summary={}, error=error, details=details)
