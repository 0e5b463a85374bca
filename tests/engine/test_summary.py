from dataclasses import replace

import numpy as np
import pytest

from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.report import RoundReport
from fedgraph_sim.engine.summary import best_round

REPORT = RoundReport(
    round=1, num_participants=2, seconds=1.0, seconds_compute=0.5, seconds_transport=0.25, seconds_server=0.125,
    seconds_evaluation=0.125, seconds_simulated=0.0, bytes_up=10, bytes_down=20, evaluation=None,
)  # fmt: skip


def reports(*metrics):
    """Build a report per round with these figures."""
    found = [Evaluation(metrics=each, clients=(), values={"val_accuracy": np.ones(1)}, counts={}) for each in metrics]
    return [replace(REPORT, round=number, evaluation=each) for number, each in enumerate(found, start=1)]


@pytest.mark.parametrize(
    ("metrics", "best"),
    [
        (({"val_accuracy": 0.5}, {"val_accuracy": 0.9}, {"val_accuracy": 0.7}), 2),
        (({"val_accuracy": 0.9}, {"val_accuracy": 0.9}), 1),
        (({"val_accuracy": 0.9, "val_loss": 0.5}, {"val_accuracy": 0.9, "val_loss": 0.4}), 2),
        (({"val_accuracy": 0.9, "val_loss": 0.5}, {"val_accuracy": 0.8, "val_loss": 0.4}), 1),
        (({"val_accuracy": None, "val_loss": 0.1}, {"val_accuracy": 0.0, "val_loss": 9.0}), 2),
        (({"val_accuracy": None}, {"val_accuracy": None}), 2),
    ],
)
def test_best_round_is_of_the_best_validation_and_then_of_the_least_loss(metrics, best):
    found = best_round(reports(*metrics), "val_accuracy")
    assert found is not None
    assert found.round == best


def test_of_an_error_the_smallest_is_the_best():
    found = best_round(reports({"val_rmse": 3.0}, {"val_rmse": 1.0}, {"val_rmse": 2.0}), "val_rmse")
    assert found is not None
    assert found.round == 2


def test_no_round_is_best_of_none():
    assert best_round([], "val_accuracy") is None
