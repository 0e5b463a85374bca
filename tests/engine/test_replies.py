import pytest
import torch

from fedgraph_sim.engine.replies import Replies


def test_mean_is_weighted_and_normalised():
    replies = Replies((0, 1), {"w": {"a": torch.tensor([[1.0, 0.0], [5.0, 4.0]])}})
    assert replies.mean("w", by=torch.tensor([3, 1]))["a"].tolist() == [2, 1]
    assert replies.mean("w", by=torch.tensor([0.75, 0.25]))["a"].tolist() == [2, 1]
    assert replies.mean("w", by=torch.tensor([0, 7]))["a"].tolist() == [5, 4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_mean_keeps_the_type(dtype):
    mean = Replies((0, 1), {"w": torch.tensor([1, 2], dtype=dtype)}).mean("w", by=torch.ones(2))
    assert mean.dtype == dtype
    assert mean.item() == 1.5


def test_mean_rounds_whole_numbers_and_keeps_large_ones():
    large = 2**40 + 1
    mean = Replies((0, 1), {"w": torch.tensor([[3, large], [6, large]])}).mean("w", by=torch.tensor([2, 1]))
    assert mean.dtype == torch.int64
    assert mean.tolist() == [4, large]


def test_mean_refuses_weights_that_are_all_zero():
    with pytest.raises(AssertionError, match="must not all be zero"):
        Replies((0,), {"w": torch.ones(1, 2)}).mean("w", by=torch.zeros(1))


def test_replies_are_a_mapping_by_client():
    replies = Replies((4, 2), {"w": torch.tensor([[1.0], [2.0]]), "ragged": [torch.zeros(1), torch.zeros(3)]})
    assert list(replies) == [4, 2]
    assert len(replies) == 2
    assert replies[2]["w"].tolist() == [2]
    assert replies[2]["ragged"].tolist() == [0, 0, 0]
    assert replies.stack("w").tolist() == [[1], [2]]
    assert 2 in replies
    assert 3 not in replies
    with pytest.raises(KeyError):
        replies[3]
