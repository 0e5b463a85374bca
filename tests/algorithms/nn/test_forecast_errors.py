import pytest
import torch

from fedgraph_sim.algorithms.nn.forecast_errors import forecast_errors


def test_errors_by_hand():
    truth = torch.tensor([[10.0, 0.0, 4.0], [8.0, 2.0, 0.0]])
    forecast = torch.tensor([[11.0, 2.0, 2.0], [8.0, 1.0, 3.0]])
    observed = torch.tensor([[True, False, True], [True, True, False]])
    sums = forecast_errors(forecast, truth, observed, torch.ones(3))
    assert sums["rmse"].tolist() == [[1 + 4 + 4, 3], [0 + 1 + 9, 3]]
    assert sums["rmse_masked"].tolist() == [[1 + 4, 2], [0 + 1, 2]]
    assert sums["mae"].tolist() == [[5, 3], [4, 3]]
    assert sums["mae_masked"].tolist() == [[3, 2], [1, 2]]
    assert sums["mape"].flatten().tolist() == pytest.approx([0.1 + 0.5, 2, 0.5, 2])  # a truth of 0 has no percentage
    assert sums["mape_masked"].flatten().tolist() == pytest.approx([0.6, 2, 0.5, 2])


def test_rows_that_do_not_count_are_left_out():
    truth, forecast = torch.ones(2, 3), torch.zeros(2, 3)
    sums = forecast_errors(forecast, truth, torch.ones(2, 3, dtype=torch.bool), torch.tensor([1.0, 0.0, 0.0]))
    assert all(pair[:, 1].tolist() == [1, 1] for pair in sums.values())
