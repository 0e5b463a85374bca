import pytest
import torch

from fedgraph_sim.algorithms.nn.jacobians import FORMS, jacobian_bytes
from fedgraph_sim.algorithms.nn.perceptron import Perceptron
from fedgraph_sim.engine.ledger import num_bytes

FEATURES, CLASSES, CLIENTS = 20, 3, 5


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize(("rows", "density"), [(1, 1.0), (1, 0.1), (4, 1.0)])
def test_factors_are_the_jacobian(activation, rows, density):
    generator = torch.Generator().manual_seed(0)
    encoder = Perceptron(hidden=6, activation=activation)
    weights = encoder.init(FEATURES, CLASSES, generator)
    x = torch.randn(CLIENTS, rows, FEATURES, generator=generator)
    x = x * (torch.rand(x.shape, generator=generator) < density)
    share = torch.rand(CLIENTS, rows, generator=generator)
    coefficients = torch.rand(70, CLIENTS, generator=generator)  # more than are computed at a time
    error = torch.randn(CLASSES, generator=generator)
    pulled = {}
    for name, form in FORMS.items():
        told = torch.vmap(lambda x, share, form=form: form.of(encoder, weights, x, share))(x, share)
        relayed = form.relayed(told, coefficients, weights)
        one = {key: leaf[69] for key, leaf in relayed.items()}
        pulled[name] = form.pull(one, weights, error)

    def together(weights):
        h = torch.stack([share[client] @ encoder(weights, x[client]) for client in range(CLIENTS)])
        return coefficients[69] @ h @ error

    for name, leaf in torch.func.grad(together)(weights).items():
        torch.testing.assert_close(pulled["explicit"][name], leaf, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(pulled["implicit"][name], leaf, rtol=1e-4, atol=1e-5)


def test_factors_count_as_the_jacobian():
    encoder = Perceptron(hidden=6)
    weights = encoder.init(FEATURES, CLASSES, torch.Generator().manual_seed(0))
    x, share = torch.ones(1, FEATURES), torch.ones(1)
    sizes = [num_bytes(form.of(encoder, weights, x, share)) for form in FORMS.values()]
    assert sizes == [4 * CLASSES * (FEATURES * 6 + 6 * CLASSES)] * 2
    assert jacobian_bytes(weights) == sizes[0]
