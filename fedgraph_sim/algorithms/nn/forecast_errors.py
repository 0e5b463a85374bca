"""Errors of forecasts, step by step ahead: sums and counts of which RMSE, MAE and MAPE follow."""

import torch
from torch import Tensor

Sums = dict[str, Tensor]


def forecast_errors(forecast: Tensor, truth: Tensor, observed: Tensor, counts: Tensor) -> Sums:
    """Return ``{metric: [horizon, 2]}``, sum and count, for `forecast` and `truth` [horizon, R] in their own unit.

    ``rmse``: squared errors (the metric is the root of their mean), ``mae``: absolute errors, ``mape``: absolute errors
    over the truth's absolute value, where that is not 0. Without a further word, a missing reading counts as the 0 that
    stands for it, as in the published figures of CNFGNN; with ``_masked``, only what was `observed` counts. `counts`
    [R], 0 or 1, leaves rows out.
    """
    error = (forecast - truth).abs()
    relative = torch.where(truth == 0, 0.0, error / torch.where(truth == 0, 1.0, truth.abs()))
    sums: Sums = {}
    for name, where in (("", torch.ones_like(observed)), ("_masked", observed)):
        weight = where * counts
        relevant = weight * (truth != 0)
        sums[f"rmse{name}"] = _pair(error.square(), weight)
        sums[f"mae{name}"] = _pair(error, weight)
        sums[f"mape{name}"] = _pair(relative, relevant)
    return sums


def added(first: Sums | None, second: Sums) -> Sums:
    """Return the sums of both."""
    return second if first is None else {name: first[name] + pair for name, pair in second.items()}


def _pair(values: Tensor, weight: Tensor) -> Tensor:
    return torch.stack([(values * weight).sum(dim=-1), weight.to(values.dtype).sum(dim=-1)], dim=-1).double()
