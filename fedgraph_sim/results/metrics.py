"""Names of metrics: which one judges a run, which direction is better, how a value is printed."""

from collections.abc import Sequence

import pandas as pd

PARTS = ("train", "val", "test")
LOSS = "loss"
LOWER_IS_BETTER = ("loss", "rmse", "mae", "mse", "mape", "error")
SHARES = ("accuracy", "auc", "f1", "sparsity")
"""Metrics that are fractions, and are printed in per cent."""


def main_metric(names: Sequence[str]) -> str:
    """Return the metric behind the first ``test_<metric>`` that is no loss; ``loss`` where there is no other."""
    metrics = [name.removeprefix("test_") for name in names if name.startswith("test_")]
    return next((metric for metric in metrics if metric != LOSS), LOSS)


def _is(metric: str, names: Sequence[str]) -> bool:
    return any(part in names for part in metric.split("_"))


def lower_is_better(metric: str) -> bool:
    """Tell whether a metric is an error: best where smallest."""
    return _is(metric, LOWER_IS_BETTER)


def is_share(metric: str) -> bool:
    """Tell whether a metric is a fraction, printed in per cent."""
    return _is(metric, SHARES)


def unit(metric: str) -> str:
    """Return the unit in which `printed` prints."""
    return "%" if is_share(metric) else ""


def titled(part: str, metric: str) -> str:
    """Return a heading for a metric on a part, with its unit: ``test accuracy %``."""
    return f"{part} {metric.replace('_', ' ')} {unit(metric)}".strip()


def scale(metric: str) -> int:
    """Return what a value is multiplied by to be in the unit in which it is printed."""
    return 100 if is_share(metric) else 1


def scaled(metric: str, value: float) -> float:
    """Return a value in the unit in which it is printed."""
    return scale(metric) * value


def best_index(rounds: pd.DataFrame, metric: str) -> int | None:
    """Return the index of the best ``val_<metric>``, or of the last evaluated round where there is none.

    Of several that are equal it is the one with the least ``val_loss``, and of those the first.
    """
    validated = rounds.get(f"val_{metric}", pd.Series(dtype=float)).dropna()
    if len(validated):
        best = validated[validated == (validated.min() if lower_is_better(metric) else validated.max())]
        losses = rounds.get("val_loss", pd.Series(dtype=float)).reindex(best.index).dropna()
        return int(losses.idxmin() if len(losses) else best.index[0])
    measured = rounds.filter(regex="^(train|test)_").dropna(how="all")
    return int(measured.index[-1]) if len(measured) else None
