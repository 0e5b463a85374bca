import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraph_sim.algorithms.gfl_appnp import GflAppnp

HIDDEN, FEATURES = 8, 12


def algorithm(**options):
    return GflAppnp(hidden=HIDDEN, local_epochs=1, **options)


@pytest.fixture(scope="module")
def clients(make_graph):
    """20 clients of one sample each, on a ring."""
    x = np.random.default_rng(0).standard_normal((20, FEATURES)).astype(np.float32)
    graphs = [make_graph(1, [], x=x[node : node + 1], y=np.array([node % 2])) for node in range(20)]
    ring = np.roll(np.eye(20), 1, axis=0)
    return graphs, sparse.csr_array(ring + ring.T)


def federation(make_federation, chosen, clients, **options):
    return make_federation(chosen, clients[0], client_graph=clients[1], **options)


def recovered(jacobian, weights):
    """What a server makes of a Jacobian with respect to the first layer, column u of class 0: W_2[u, 0] x, or 0."""
    first = jacobian["layer1.weight"][0]
    unit = int(first.square().sum(dim=0).argmax())
    return first[:, unit] / weights["layer2.weight"][unit, 0]


def test_the_server_recovers_the_features_of_a_single_sample(clients, make_federation):
    errors = {}
    for noise in (0.0, 1.0):
        chosen = algorithm(exchange="explicit", noise_jacobian=noise)
        fed = federation(make_federation, chosen, clients)
        weights = chosen.setup(fed)["weights"]
        fed.publish(weights)
        shared = fed.call(chosen.share_jacobian)
        x = [torch.from_numpy(graph.x[0]) for graph in clients[0]]
        found = [recovered(shared[client]["jacobian"], weights) for client in fed.clients]
        errors[noise] = [float((a - b).norm() / b.norm()) for a, b in zip(found, x, strict=True)]
    assert max(errors[0.0]) < 1e-5
    assert min(errors[1.0]) > 1


def test_noise_is_drawn_anew_and_clipping_comes_first(clients, make_federation):
    chosen = algorithm(exchange="explicit", noise_hidden=0.5, clip_hidden=1e-9, noise_jacobian=2.0, clip_jacobian=1e-9)
    fed = federation(make_federation, chosen, clients, batched=True)
    fed.publish(chosen.setup(fed)["weights"])
    first, second = (fed.call(chosen.share_jacobian).tree for _ in range(2))
    assert not torch.equal(first["hidden"], second["hidden"])
    assert float(first["hidden"].std()) == pytest.approx(0.5, rel=0.3)
    noise = torch.cat([leaf.flatten() for leaf in first["jacobian"].values()])
    assert float(noise.std()) == pytest.approx(2.0, rel=0.03)
    assert abs(float(noise.mean())) < 0.05


def test_what_is_guaranteed():
    assert algorithm().remarks(rounds=10, evaluations=10) == {}
    plain = algorithm(noise_hidden=1.0, noise_jacobian=1.0)
    assert plain.remarks(rounds=10, evaluations=0)["epsilon of shared representations"] is None
    clipped = algorithm(noise_hidden=8.0, clip_hidden=1.0, noise_jacobian=16.0, clip_jacobian=2.0)
    values = [
        clipped.remarks(rounds=rounds, evaluations=evaluations)["epsilon of shared representations"]
        for rounds, evaluations in ((1, 0), (10, 0), (10, 10), (100, 100))
    ]
    assert values == sorted(values)
    half = clipped.model_copy(update={"compensation": "none"})
    assert half.remarks(rounds=10, evaluations=10) == clipped.remarks(rounds=10, evaluations=0)
