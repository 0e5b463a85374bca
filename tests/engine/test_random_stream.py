import numpy as np
import pytest
import torch

from fedgraph_sim.engine.random_stream import RandomStream

KEYS = [0, 1, 0x7FFFFFFF, 0x80000000, 0x123456789ABCDEF, 2**62 - 1, 2**63 - 1]


def reference(key, count):
    """The same hash in unsigned arithmetic."""
    x = np.arange(count, dtype=np.uint32) ^ np.uint32(key & 0x7FFFFFFF)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15)) ^ np.uint32(key >> 31)) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def stream(key=12345):
    return RandomStream(torch.tensor(key))


@pytest.mark.parametrize("key", KEYS)
def test_bits_equal_an_independent_reference(key):
    assert stream(key).bits(1000).numpy().view(np.uint32).tolist() == reference(key, 1000).tolist()


@pytest.mark.parametrize("probability", [1.0, 0.9, 0.5, 0.3, 0.01])
def test_keep_has_the_right_frequency(probability):
    kept = stream().keep((500, 401), probability)
    sigma = (probability * (1 - probability) / kept.numel()) ** 0.5
    assert kept.dtype == torch.bool
    assert abs(kept.double().mean().item() - probability) <= 5 * sigma + 2**-16
    assert probability < 1 or kept.all()


def test_bits_are_balanced_in_every_position():
    bits = stream().bits(40_000).numpy().view(np.uint32)
    means = [(bits >> np.uint32(position) & 1).mean() for position in range(32)]
    assert max(abs(mean - 0.5) for mean in means) < 5 * 0.5 / 40_000**0.5


@pytest.mark.parametrize("other", [stream().fold(1), stream().fold(2).fold(0), stream(12346).fold(0), stream()])
def test_streams_are_independent(other):
    differing = stream().fold(0).keep((40_000,), 0.5) != other.keep((40_000,), 0.5)
    assert abs(differing.double().mean().item() - 0.5) < 5 * 0.5 / 40_000**0.5


def test_a_stream_is_a_function_of_its_key():
    assert torch.equal(stream().fold(3).bits(9), stream().fold(3).bits(9))
    assert torch.equal(stream().bits(9), stream().bits(20)[:9])


def test_vmap_gives_each_client_its_own_stream():
    keys = torch.tensor(KEYS)
    together = torch.vmap(lambda key: RandomStream(key).fold(1).keep((3, 5), 0.5))(keys)
    alone = torch.stack([stream(key).fold(1).keep((3, 5), 0.5) for key in KEYS])
    assert torch.equal(together, alone)


def test_generator_is_seeded_by_the_key():
    assert torch.equal(torch.rand(3, generator=stream().generator()), torch.rand(3, generator=stream().generator()))
    assert not torch.equal(
        torch.rand(3, generator=stream(1).generator()), torch.rand(3, generator=stream(2).generator())
    )


@pytest.mark.parametrize("high", [1, 7, 3_000_000_000, 2**40])
def test_integers_are_uniform(high):
    drawn = stream().integers(40_000, torch.tensor(high)).double()
    assert 0 <= drawn.min() <= drawn.max() < high
    mean, deviation = (high - 1) / 2, ((high**2 - 1) / 12) ** 0.5
    assert abs(drawn.mean().item() - mean) <= 5 * deviation / 40_000**0.5
    assert drawn.std().item() == pytest.approx(deviation, rel=0.02)


def test_integers_are_the_same_for_one_and_for_many_clients():
    keys, highs = torch.tensor(KEYS), torch.arange(1, len(KEYS) + 1) * 1000
    together = torch.vmap(lambda key, high: RandomStream(key).integers(50, high))(keys, highs)
    for key, high, drawn in zip(KEYS, highs, together, strict=True):
        assert torch.equal(stream(key).integers(60, high)[:50], drawn)


def test_normal_draws_have_the_moments_and_tails_of_a_normal_distribution():
    draws = RandomStream(torch.tensor(7)).normal((100, 1000)).double()
    assert draws.shape == (100, 1000)
    for power, expected in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert float((draws**power).mean()) == pytest.approx(expected, abs=0.1)
    for bound, share in ((1.0, 0.1587), (2.0, 0.02275), (3.0, 0.00135)):
        for sign in (1, -1):
            assert float((sign * draws > bound).double().mean()) == pytest.approx(share, rel=0.3)
    lag = torch.corrcoef(torch.stack([draws.flatten()[1:], draws.flatten()[:-1]]))[0, 1]
    assert abs(float(lag)) < 0.02
    assert torch.isfinite(draws).all()
