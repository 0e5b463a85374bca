import math

import pytest
import torch

from fedgraph_sim.algorithms.nn.privacy import clipped, epsilon, noisy
from fedgraph_sim.engine.random_stream import RandomStream


def test_a_tree_is_cut_as_one_vector():
    tree = {"a": torch.tensor([3.0]), "b": {"c": torch.tensor([[0.0, 4.0]])}}
    cut = clipped(tree, 1.0)
    assert cut["a"].item() == pytest.approx(0.6)
    assert cut["b"]["c"].tolist() == [[0.0, pytest.approx(0.8)]]
    assert clipped(tree, 6.0)["a"].item() == pytest.approx(3.0)
    assert clipped(tree, 0.0) is tree
    assert clipped({"a": torch.zeros(3)}, 1.0)["a"].tolist() == [0.0] * 3


def test_every_leaf_has_noise_of_its_own():
    tree = {"a": torch.zeros(20_000), "b": torch.zeros(20_000)}
    noise = noisy(tree, 2.0, RandomStream(torch.tensor(5)))
    for leaf in noise.values():
        assert float(leaf.std()) == pytest.approx(2.0, rel=0.02)
    together = torch.stack([noise["a"], noise["b"]])
    assert abs(float(torch.corrcoef(together)[0, 1])) < 0.03
    assert noisy(tree, 0.0, RandomStream(torch.tensor(5))) is tree


@pytest.mark.parametrize("multiplier", [2.0, 10.0])
@pytest.mark.parametrize("count", [1, 100])
def test_epsilon_lies_between_the_exact_one_and_the_plain_bound(multiplier, count):
    """`count` releases are one of sqrt(count) times the sensitivity; of one the exact curve is known (Balle, 2018)."""
    delta, mu = 1e-5, math.sqrt(count) / multiplier
    found = epsilon([(3.0 * multiplier, 3.0, count)], delta=delta)

    def exact_delta(value):
        cdf = torch.distributions.Normal(0.0, 1.0).cdf
        first, second = cdf(torch.tensor([mu / 2 - value / mu, -mu / 2 - value / mu], dtype=torch.float64))
        return float(first - math.exp(value) * second)

    assert exact_delta(found) <= delta
    plain = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # the best order in closed form
    assert found <= plain * 1.01
    assert epsilon([(multiplier, 1.0, count), (multiplier, 1.0, 0)], delta=delta) == pytest.approx(found)


def test_without_noise_or_clipping_nothing_is_guaranteed():
    assert epsilon([(0.0, 1.0, 1)], delta=1e-5) is None
    assert epsilon([(1.0, 1.0, 1), (1.0, 0.0, 1)], delta=1e-5) is None
