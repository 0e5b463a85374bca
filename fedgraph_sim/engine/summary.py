"""``summary.json``: a run in one screen."""

import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from math import inf
from statistics import median
from typing import Any

from fedgraph_sim import __version__
from fedgraph_sim.datasets.storage import StoreInfo
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.metrics import metric_of
from fedgraph_sim.engine.report import RoundReport

PACKAGES = ("torch", "torch-geometric", "ray", "pymetis", "numpy", "pyarrow")


def summarize(job: Job, info: StoreInfo, reports: Sequence[RoundReport], ledger: Ledger) -> dict[str, Any]:
    """Return the part of the summary that follows from the reports; accuracies are fractions, None if not available."""
    config, metric = job.config, job.config.algorithm.metric
    evaluated = [report for report in reports if report.evaluation is not None]
    best = best_round(evaluated, f"val_{metric}")
    return {
        "algorithm": config.algorithm.name,
        "dataset": info.dataset,
        "partition": info.partition,
        "num_clients": info.num_clients,
        "num_actors": 0 if job.inline else len(job.placement.actors),
        "clients_per_actor": max(len(clients) for clients in job.placement.actors),
        "rounds": len(reports),
        "rounds_planned": config.num_rounds,
        "seed": config.seed,
        "fraction": config.fraction,
        "protocol": config.evaluation.protocol,
        "best_round": best.round if best else None,
        f"val_{metric}": _metrics(best).get(f"val_{metric}"),
        f"test_{metric}": _metrics(best).get(f"test_{metric}"),
        **_other_test_metrics(best),
        "remarks": config.algorithm.remarks(rounds=len(reports), evaluations=len(evaluated)),
        "last": {"round": evaluated[-1].round, **_metrics(evaluated[-1])} if evaluated else {},
        "bytes": {
            "up": ledger.total("up", "train"),
            "down": ledger.total("down", "train"),
            "setup": ledger.total("up", "setup") + ledger.total("down", "setup"),
            "eval": ledger.total("up", "eval") + ledger.total("down", "eval"),
        },
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what decides a run's numbers."""
    others = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "fedgraph-sim": __version__} | others


def summary_of_reports(job: Job, info: StoreInfo, reports: Sequence[RoundReport], *, error: str) -> dict[str, Any]:
    """Return the summary of a run whose coordinator is gone: what it alone knew is None."""
    now = time.time()
    traffic = {
        "up": sum(report.bytes_up for report in reports),
        "down": sum(report.bytes_down for report in reports),
        "setup": None,
        "eval": None,
    }
    return (
        {"status": "failed", "error": error}
        | summarize(job, info, reports, Ledger())
        | {"bytes": traffic, "seconds": seconds(job, reports, ready=now - sum(r.seconds for r in reports), now=now)}
        | {"profile": profile(reports, []), "padding": None, "peak_memory": None}
    )


def best_round(evaluated: Sequence[RoundReport], metric: str) -> RoundReport | None:
    """Return the round with the best validation `metric`, or the last round where there is no validation.

    Of several that are equal, as they often are on few validation nodes, it is the one with the least validation loss,
    and of those the first.
    """
    scored = [report for report in evaluated if _metrics(report).get(metric) is not None]
    if not scored:
        return evaluated[-1] if evaluated else None

    def goodness(report: RoundReport) -> tuple[float, float]:
        found = _metrics(report)
        loss = found.get("val_loss")
        return metric_of(metric).goodness(found[metric] or 0.0), -inf if loss is None else -loss

    return max(scored, key=goodness)


def seconds(
    job: Job, reports: Sequence[RoundReport], *, ready: float, now: float, before: float = 0.0
) -> dict[str, float]:
    """Return where the time went; `ready` and `now` are epoch seconds, `startup` leaves out the partitioning.

    `before` are the seconds of the rounds before the checkpoint from which a resumed run goes on.
    """
    return {
        "startup": round(ready - job.started - job.seconds_partition, 3),
        "partition": round(job.seconds_partition, 3),
        "train": round(before + now - ready, 3),
        "simulated": round(sum(report.seconds_simulated for report in reports), 3),
        "round_median": round(median(report.seconds for report in reports), 6) if reports else 0.0,
    }


def profile(reports: Sequence[RoundReport], recorder: list[float]) -> dict[str, float]:
    """Return the median seconds of each part of a round; the first round, which warms up, counts only if alone."""
    rounds, recorder = reports[1:] or reports, recorder[1:] or recorder
    parts = {
        "compute": [report.seconds_compute for report in rounds],
        "transport": [report.seconds_transport for report in rounds],
        "server": [report.seconds_server for report in rounds],
        "evaluation": [report.seconds_evaluation for report in rounds if report.evaluation is not None],
        "recorder": recorder,
    }
    return {name: round(median(values), 6) if values else 0.0 for name, values in parts.items()}


def _other_test_metrics(report: RoundReport | None) -> dict[str, float]:
    """Return what else there is of the test, but for losses."""
    metrics = {name: value for name, value in _metrics(report).items() if value is not None}
    return {name: value for name, value in metrics.items() if name.startswith("test_") and name != "test_loss"}


def _metrics(report: RoundReport | None) -> dict[str, float | None]:
    return report.evaluation.metrics if report is not None and report.evaluation is not None else {}
