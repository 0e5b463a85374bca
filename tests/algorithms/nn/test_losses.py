import math

import pytest
import torch

from fedgraph_sim.algorithms.nn.losses import cross_entropy, scores

LOGITS = torch.tensor([[0.0, 0.0], [math.log(3.0), 0.0], [5.0, -5.0]])
Y = torch.tensor([0, 1, -1])


def mask(*values):
    return torch.tensor(values, dtype=torch.bool)


def test_cross_entropy_is_the_mean_over_the_mask():
    assert cross_entropy(LOGITS, Y, mask(1, 0, 0)).item() == pytest.approx(math.log(2))
    assert cross_entropy(LOGITS, Y, mask(1, 1, 0)).item() == pytest.approx((math.log(2) + math.log(4)) / 2)


def test_an_empty_mask_gives_no_loss_and_no_gradient():
    gradient, loss = torch.func.grad_and_value(lambda logits: cross_entropy(logits, Y, mask(0, 0, 0)))(LOGITS)
    assert loss.item() == 0
    assert torch.equal(gradient, torch.zeros_like(LOGITS))


def test_what_is_not_finite_elsewhere_does_not_leak():
    logits = LOGITS.clone()
    logits[2] = torch.tensor([float("nan"), float("inf")])
    chosen = mask(1, 1, 0)
    gradient, loss = torch.func.grad_and_value(lambda x: cross_entropy(x, Y, chosen))(logits)
    assert loss.item() == pytest.approx(cross_entropy(LOGITS, Y, chosen).item())
    assert torch.isfinite(gradient).all()
    assert gradient[2].tolist() == [0, 0]
    pairs = scores(logits, Y, {"val": chosen})
    assert torch.isfinite(pairs["val_loss"]).all()


def test_scores_are_sums_and_counts():
    pairs = scores(LOGITS, Y, {"val": mask(1, 1, 0), "test": mask(0, 0, 0)})
    assert pairs["val_accuracy"].tolist() == [1, 2]
    assert pairs["val_loss"].tolist() == pytest.approx([math.log(2) + math.log(4), 2])
    assert pairs["test_accuracy"].tolist() == [0, 0]
    assert pairs["test_loss"].tolist() == [0, 0]
