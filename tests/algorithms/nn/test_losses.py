import math

import pytest
import torch

from fedgraph_sim.algorithms.nn.losses import auc, cross_entropy, link_losses, scores

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


def brute_force(linked, unlinked):
    return sum((a > b) + 0.5 * (a == b) for a in linked for b in unlinked) / (len(linked) * len(unlinked))


@pytest.mark.parametrize("num_values", [3, 1000])
@pytest.mark.parametrize("batched", [False, True])
def test_auc_counts_pairs_that_are_in_order_and_half_of_the_ties(num_values, batched):
    generator = torch.Generator().manual_seed(num_values)
    linked, unlinked = (torch.randint(num_values, (5, 50), generator=generator).float() for _ in range(2))
    chosen = torch.rand(5, 50, generator=generator) < torch.tensor([1.0, 0.5, 0.1, 0.02, 0.7])[:, None]
    values = (
        torch.vmap(auc)(linked, unlinked, chosen) if batched else torch.stack(list(map(auc, linked, unlinked, chosen)))
    )
    for value, ours, theirs, where in zip(values, linked, unlinked, chosen, strict=True):
        if where.any():
            assert value.item() == pytest.approx(brute_force(ours[where].tolist(), theirs[where].tolist()))


def test_auc_of_extremes():
    high, low = torch.tensor([2.0, 3.0]), torch.tensor([0.0, 1.0])
    both = mask(1, 1)
    assert [auc(high, low, both).item(), auc(low, high, both).item(), auc(low, low, both).item()] == [1, 0, 0.5]
    assert auc(high, low, mask(0, 0)).item() == 0
    assert auc(torch.full((2,), torch.inf), low, both).item() == 1


def test_link_losses_are_selected_and_leak_nothing():
    scores_of_links, others = torch.tensor([math.log(3.0), 40.0]), torch.tensor([0.0, float("nan")])
    chosen = mask(1, 0)
    losses = link_losses(scores_of_links, others, chosen)
    assert losses.tolist() == pytest.approx([math.log(4 / 3) + math.log(2), 0])
    gradient = torch.func.grad(lambda x: link_losses(scores_of_links, x, chosen).sum())(others)
    assert gradient.tolist() == [0.5, 0]
