"""Shows a run while it goes on, and what came out of it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from types import FrameType
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedgraph_sim.algorithms.registry import BASELINES
from fedgraph_sim.cli.consoles import progress_console, results_console
from fedgraph_sim.cli.run_folders import other_algorithms, other_parameters
from fedgraph_sim.counts import counted
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.federation import Task
from fedgraph_sim.engine.files import CONFIG_FILE
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.launch import Run
from fedgraph_sim.engine.metrics import says_nothing_new
from fedgraph_sim.engine.report import Outcome, RolledBack, RoundReport, Started
from fedgraph_sim.remote.client import RemoteRun


def follow(run: Run | RemoteRun) -> Outcome:
    """Start `run`, show every round on standard error, and return the outcome."""
    console = progress_console()
    announce(run, console)
    bar = _bar(console)
    task = bar.add_task("", total=run.job.config.num_rounds)
    outcome: Outcome | None = None
    num_bytes = 0
    with stop_on_signal(run.stop, console), bar if console.is_terminal else nullcontext():
        for event in run.events():
            if isinstance(event, Started):
                console.print(_device_line(event, run), soft_wrap=True)
            elif isinstance(event, RoundReport):
                num_bytes += event.bytes_up + event.bytes_down
                line = f"{_scores(event, run.job.config.algorithm.metric)}  {human_bytes(num_bytes)} in all"
                bar.update(task, completed=event.round, description=line)
                if not console.is_terminal:
                    text = f"round {event.round}/{run.job.config.num_rounds}  {line}  {event.seconds:.3f} s"
                    console.print(text, soft_wrap=True)
            elif isinstance(event, RolledBack):
                num_bytes = event.num_bytes
                bar.update(task, completed=event.round)
                lost = f"{event.reason}; replaced, and back to" if event.reason else "going on from"
                console.print(f"{lost} round {event.round}", soft_wrap=True)
            else:
                outcome = event
    assert outcome is not None
    return outcome


@contextmanager
def only_results() -> Iterator[None]:
    """Keep standard output for results: what Ray passes on, or a client's step prints, goes to standard error.

    What actors have printed may come late, so that the connection to Ray ends here, too.
    """
    with redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            if ray := sys.modules.get("ray"):
                ray.shutdown()


def announce(run: Run | RemoteRun, console: Console) -> None:
    """Say what is about to run, and where."""
    config, info = run.job.config, run.info
    console.print(
        f"{config.algorithm.name} on {info.dataset}: {info.summary}; {info.division}; {_rounds(config)}",
        soft_wrap=True,
    )
    console.print(
        "all clients in this process (inline)" if run.job.inline else run.job.placement.describe(), soft_wrap=True
    )
    task = Task(num_features=info.num_features, num_classes=info.num_classes)
    places = [range(info.num_clients)] if run.job.inline else run.job.placement.actors
    for line in config.algorithm.notices(task, places):
        console.print(line, soft_wrap=True)


def conclude(outcome: Outcome, job: Job, *, profile: bool = False) -> None:
    """Print the results, and where they are; with `profile` also where a round's time went."""
    console = progress_console()
    summary, folder = outcome.summary, job.folder
    if outcome.details:
        console.print(outcome.details, soft_wrap=True)
    if outcome.error:
        console.print(f"Error: {outcome.error}", style="red", soft_wrap=True)
    if outcome.status == "interrupted":
        console.print(f"Stopped after round {summary['rounds']}; the results so far are kept.")
    out = results_console()
    rows = list(_result_rows(summary))
    width = max(len(key) for key, _ in rows)
    out.print("\n".join(f" {key:<{width}}  {value}" for key, value in rows), end="\n\n", soft_wrap=True)
    if outcome.status == "completed":
        for line in comparison(job):
            out.print(line, soft_wrap=True)
    out.print(f"Results: {os.path.relpath(folder)}", soft_wrap=True)
    for file, meaning in FILES.items():
        if (folder / file).exists():
            out.print(f"  {file:<17} {meaning}", soft_wrap=True)
    out.print(f"Report:  fedgraph-sim report {os.path.relpath(folder)}", soft_wrap=True)
    out.print(f"Curves:  tensorboard --logdir {os.path.relpath(folder.parent)}", soft_wrap=True)
    if profile:
        out.print(profile_table(summary["profile"]))


def comparison(job: Job) -> Iterator[str]:
    """Yield the results of other algorithms that ran under the same configuration, or how to get the first."""
    others, algorithm = other_algorithms(job.folder.parent, job.config), job.config.algorithm
    if others:
        yield "Other algorithms on the same data, split and rounds:"
    elif not algorithm.pooled:  # whose configuration has lost the clients
        name = BASELINES.get(algorithm.name, "fedavg")
        yield f"Compare: fedgraph-sim run {os.path.relpath(job.folder / CONFIG_FILE)} --algorithm {name}"
    for name, run in others.items():
        metric = f"test_{run.config.algorithm.metric}"
        score = f"{metric.replace('_', ' ')} {_number(run.summary[metric])}"
        differing = other_parameters(run.config.algorithm, algorithm)
        shown = [
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in differing.items()
        ]
        but = f"  ({', '.join(shown)})" if shown else ""
        yield f"  {name:<16} {score}  {os.path.relpath(run.folder)}{but}"


def profile_table(seconds: dict[str, float]) -> Table:
    """Return a table of the parts of a round: median milliseconds and share."""
    total = sum(seconds.values()) or 1.0
    table = Table("part of a round", "ms", "share", box=box.SIMPLE_HEAD)
    for name, value in seconds.items():
        table.add_row(f"{name}: {PARTS[name]}", f"{1000 * value:.2f}", f"{100 * value / total:.0f} %")
    return table


PARTS = {
    "compute": "client steps, in the slowest actor",
    "transport": "calls to the actors, and the sums over their clients",
    "server": "the algorithm's own work, and the handling of its calls",
    "evaluation": "of all clients, or of the global model",
    "recorder": "tables and TensorBoard",
}

FILES = {
    "summary.json": "the run in one screen",
    "rounds.parquet": "one row per round",
    "clients.parquet": "one row per client and evaluated round",
    "ledger.parquet": "one row per message between server and client",
    "matrices.parquet": "one row per evaluated round and pair of clients",
    "steps.parquet": "one row per evaluated round and step ahead",
    "forecasts.parquet": "what was read and predicted in the test",
    "forecasts": "the same, drawn",
    "partition.json": "what each client got",
    "config.toml": "repeats the run: fedgraph-sim run .../config.toml",
    "checkpoints": "states of server and clients",
}


@contextmanager
def stop_on_signal(stop: Callable[[], None], console: Console) -> Iterator[None]:
    """End after the round under way on the first Ctrl-C or SIGTERM, at once on the second."""

    def ask(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler)
        console.print("Stopping after this round; once more to stop at once.")
        stop()

    previous: dict[signal.Signals, Any] = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def human_bytes(count: float) -> str:
    """Return a number of bytes in the unit (1000 bytes = 1 kB) that keeps it short."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _bar(console: Console) -> Progress:
    columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    return Progress("round", *columns, console=console)


def _scores(report: RoundReport, metric: str) -> str:
    metrics = report.evaluation.metrics if report.evaluation is not None else {}
    shown = [name for name in (f"val_{metric}", f"test_{metric}") if name in metrics] or metrics
    return "  ".join(f"{name.replace('_', ' ')} {_number(metrics[name])}" for name in shown)


def _result_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in summary.items():
        is_figure = key.startswith(("val_", "test_")) and summary["best_round"] is not None
        if is_figure and not says_nothing_new(key, value, summary):
            yield f"{key.replace('_', ' ')} at round {summary['best_round']}", _number(value)
    for key, value in summary["remarks"].items():
        yield key, "none" if value is None else f"{value:g}"
    traffic, seconds = summary["bytes"], summary["seconds"]
    yield "status", f"{summary['status']} after {summary['rounds']} of {counted(summary['rounds_planned'], 'round')}"
    yield "bytes up, down", f"{human_bytes(traffic['up'])}, {human_bytes(traffic['down'])}"
    parts = ("startup", "start-up"), ("partition", "data and partition"), ("train", "training")
    yield "seconds", ", ".join(f"{seconds[key]:.1f} {name}" for key, name in parts)


def _rounds(config: RunConfig) -> str:
    before = config.algorithm.preparation_rounds
    return f"{before} + {config.rounds} rounds" if before else counted(config.rounds, "round")


def _number(value: float | None) -> str:
    return "not available" if value is None else f"{value:.4f}"


def _device_line(event: Started, run: Run | RemoteRun) -> str:
    devices = {host.device for host in event.hosts}
    line = f"devices: {', '.join(sorted(devices))}"
    if run.job.config.engine.batched:
        padding = max(host.padding for host in event.hosts)
        line += f"; batched, with at most {100 * padding:.1f} % padding"
    if run.job.placement.gpus and "cpu" in devices:
        line += " (the actors hold GPU shares, but torch sees no CUDA there: they run on the CPU)"
    return line
