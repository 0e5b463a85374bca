"""Forecasts as they are written to a run's folder and shown: errors by step ahead, and curves over each other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedgraph_sim.engine.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PLOTS = 12
"""Sensors of which curves are drawn, evenly spread over all; the table has all of them."""

Curves = dict[str, NDArray[np.float32]]


def step_rows(round: int, evaluation: Evaluation) -> pa.Table:
    """Return one row per step ahead, counted from 1, with the metrics of all clients together."""
    count = len(next(iter(evaluation.steps.values())))
    columns: dict[str, Any] = {"round": [round] * count, "step": list(range(1, count + 1))}
    columns |= {name: pa.array(values, pa.float64(), from_pandas=True) for name, values in evaluation.steps.items()}
    return pa.table(columns)


def by_sensor(evaluation: Evaluation) -> Curves:
    """Return the curves [num_sensors, n], the sensors of one client after those of another."""
    return {name: values.reshape(-1, values.shape[-1]) for name, values in evaluation.forecast.items()}


def curve_rows(round: int, curves: Curves) -> pa.Table:
    """Return one row per sensor and time step of the curves."""
    sensors, length = next(iter(curves.values())).shape
    columns: dict[str, Any] = {
        "round": np.full(sensors * length, round, np.int32),
        "sensor": np.repeat(np.arange(sensors, dtype=np.int32), length),
        "time": np.tile(np.arange(length, dtype=np.int32), sensors),
    }
    return pa.table(columns | {name: values.ravel() for name, values in curves.items()})


def plots(curves: Curves) -> "Iterator[tuple[int, Figure]]":
    """Yield the number of a sensor and a drawing of its curves, of at most `MAX_PLOTS` sensors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sensors, length = next(iter(curves.values())).shape
    for sensor in np.unique(np.linspace(0, sensors - 1, min(sensors, MAX_PLOTS)).round().astype(int)).tolist():
        figure = Figure(figsize=(8, 3), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, values in curves.items():
            axes.plot(np.arange(length), values[sensor], label=name.replace("_", " "), linewidth=1)
        axes.set(xlabel="time step of the test", ylabel="reading", title=f"sensor {sensor}")
        axes.legend(loc="best", frameon=False)
        yield sensor, figure
