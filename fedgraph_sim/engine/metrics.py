"""Figures of merit: how one follows from sums and counts, and which of two values is the better one."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A mean over examples, or the root of one; a larger value is better, or a smaller one."""

    larger_is_better: bool = True
    is_root: bool = False

    def of_mean(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the figure for a mean of the examples' contributions; NaN stays."""
        return np.sqrt(mean) if self.is_root else mean

    def goodness(self, value: float) -> float:
        """Return what is larger for the better value."""
        return value if self.larger_is_better else -value


ERROR, ROOT_OF_ERRORS = Metric(larger_is_better=False), Metric(larger_is_better=False, is_root=True)
METRICS = {"loss": ERROR, "mae": ERROR, "mape": ERROR, "rmse": ROOT_OF_ERRORS}
"""Metrics by the first word of their name; all others, accuracy and auc among them, are better when larger."""


def metric_of(name: str) -> Metric:
    """Return the metric of a figure such as ``val_accuracy`` or ``test_rmse_masked``: ``<role>_<metric>[_<which>]``."""
    _, _, rest = name.partition("_")
    return METRICS.get(rest.split("_")[0], Metric())


MASKED = "_masked"
"""End of the name of a figure that leaves missing readings out."""


def says_nothing_new(name: str, value: float | None, others: Mapping[str, float | None]) -> bool:
    """Tell whether a figure leaves missing readings out where none is missing: the one of all readings is the same."""
    whole = others.get(name.removesuffix(MASKED)) if name.endswith(MASKED) else None
    return value is not None and whole is not None and isclose(value, whole, rel_tol=1e-6)
