import pytest
import torch

from fedgraph_sim.algorithms.nn.neighgen import GENERATOR, NeighGen, part
from fedgraph_sim.engine.random_stream import RandomStream

MODEL = NeighGen(latent=4, widths=(6, 5), num_pred=3, noise=0.0)
Z = torch.randn(40, 4, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def generator():
    weights = part(MODEL.init(7, torch.Generator().manual_seed(0)), GENERATOR)
    return weights | {"count.weight": torch.full((4, 1), 0.7)}


def all_slots(generator, z):
    """Return the features of every node and slot [b, num_pred, F]."""
    h = z
    for name in ("hidden1", "hidden2"):
        h = torch.relu(h @ generator[f"{name}.weight"] + generator[f"{name}.bias"])
    slots = torch.einsum("bw,pwf->bpf", h, generator["features.weight"]) + generator["features.bias"]
    return torch.tanh(slots)


def test_as_many_are_drawn_as_are_predicted_and_they_are_the_slots_features(generator):
    drawn = MODEL.draw(generator, Z, RandomStream(torch.tensor(1)))
    wanted = MODEL.counts(generator, Z).round().clamp(max=3).long()
    assert torch.equal(torch.bincount(drawn.owner, minlength=40), wanted)
    assert set(wanted.tolist()) == {0, 1, 2, 3}
    slots = all_slots(generator, Z)
    taken = []
    for owner, features in zip(drawn.owner.tolist(), drawn.features, strict=True):
        distance = (slots[owner] - features).abs().sum(dim=1)
        assert distance.min() < 1e-5
        taken.append((owner, int(distance.argmin())))
    assert len(set(taken)) == len(taken)
    first = {slot for owner, slot in taken if wanted[owner] == 1}
    assert first == {0, 1, 2}, "the sampler takes any slot"


def test_noise_and_slots_follow_from_the_stream(generator):
    noisy = NeighGen(latent=4, widths=(6, 5), num_pred=3, noise=1.0)
    one, same, other = (noisy.draw(generator, Z, RandomStream(torch.tensor(key))) for key in (1, 1, 2))
    assert torch.equal(one.features, same.features)
    assert not torch.equal(one.features[:5], other.features[:5])
    quiet = MODEL.draw(generator, Z, RandomStream(torch.tensor(1)))
    assert torch.equal(one.owner, quiet.owner)
    assert not torch.allclose(one.features, quiet.features)


def test_nobody_lacks_anything(generator):
    none = generator | {"count.weight": torch.zeros(4, 1), "count.bias": torch.zeros(1)}
    drawn = MODEL.draw(none, Z, RandomStream(torch.tensor(1)))
    assert drawn.owner.shape == (0,)
    assert drawn.features.shape == (0, 7)


def test_sizes_are_those_of_the_weights(generator):
    count = sum(leaf.numel() for name, leaf in generator.items() if name.startswith("count."))
    assert MODEL.generator_sizes(7) == (count, sum(leaf.numel() for leaf in generator.values()) - count)
