import pytest
import torch

from fedgraph_sim.engine.call import Call
from fedgraph_sim.engine.client_axis import pick
from fedgraph_sim.engine.replies import Here, Replies

PLACES = {"one place": [[0, 1]], "two places": [[1], [0]]}


@pytest.fixture(params=[(places, apart) for places in PLACES.values() for apart in (False, True)], ids=str)
def replies_of(request):
    """Build the replies of two clients that live in one place or in two."""
    places, apart = request.param

    def build(tree, clients=(4, 2)):
        calls = [Call(step="s", round=1, seed=0, clients=tuple(clients[at] for at in place)) for place in places]
        parts = [
            Here(pick(tree, place), call, seconds=1.0 + place[0]) for place, call in zip(places, calls, strict=True)
        ]
        return Replies(clients, parts, places, apart=apart)

    return build


def test_mean_is_weighted_and_normalised(replies_of):
    replies = replies_of({"w": {"a": torch.tensor([[1.0, 0.0], [5.0, 4.0]])}})
    assert replies.mean("w", by=torch.tensor([3, 1]))["a"].tolist() == [2, 1]
    assert replies.mean("w", by=torch.tensor([0.75, 0.25]))["a"].tolist() == [2, 1]
    assert replies.mean("w", by=torch.tensor([0, 7]))["a"].tolist() == [5, 4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_mean_keeps_the_type(replies_of, dtype):
    mean = replies_of({"w": torch.tensor([1, 2], dtype=dtype)}).mean("w", by=torch.ones(2))
    assert mean.dtype == dtype
    assert mean.item() == 1.5


def test_mean_of_float64_has_its_precision(replies_of):
    third = replies_of({"w": torch.tensor([0.0, 1.0], dtype=torch.float64)}).mean("w", by=torch.tensor([2, 1]))
    assert third.item() == pytest.approx(1 / 3, abs=1e-15)


def test_mean_rounds_whole_numbers(replies_of):
    mean = replies_of({"w": torch.tensor([[3, 9], [6, 9]])}).mean("w", by=torch.tensor([5, 4]))
    assert mean.dtype == torch.int64
    assert mean.tolist() == [4, 9]


def test_mean_refuses_weights_that_are_all_zero(replies_of):
    with pytest.raises(AssertionError, match="must not all be zero"):
        replies_of({"w": torch.ones(2, 2)}).mean("w", by=torch.zeros(2))


def test_replies_are_a_mapping_by_client(replies_of):
    replies = replies_of({"w": torch.tensor([[1.0], [2.0]]), "ragged": [torch.zeros(1), torch.zeros(3)]})
    assert list(replies) == [4, 2]
    assert len(replies) == 2
    assert replies[2]["w"].tolist() == [2]
    assert replies[2]["ragged"].tolist() == [0, 0, 0]
    assert replies.stack("w").tolist() == [[1], [2]]
    receipt = replies.receipt()()
    assert receipt.num_bytes.tolist() == [4 + 4, 4 + 12]
    assert receipt.seconds == 1 + max(place[0] for place in replies._positions)  # that of the slowest place
    assert 2 in replies
    assert 3 not in replies
    with pytest.raises(KeyError):
        replies[3]
