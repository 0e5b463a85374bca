import pytest
import torch
from torch import nn

from fedgraph_sim.algorithms.nn.perceptron import Perceptron


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_it_is_a_stack_of_linear_layers(num_layers, bias):
    encoder = Perceptron(hidden=5, num_layers=num_layers, bias=bias, activation="tanh")
    weights = encoder.init(4, 3, torch.Generator().manual_seed(0))
    layers = []
    for number in range(1, num_layers + 1):
        matrix = weights[f"layer{number}.weight"]
        layer = nn.Linear(*matrix.shape, bias=bias)
        assert matrix.abs().max() <= matrix.shape[0] ** -0.5  # torch's own initial weights
        assert matrix.abs().max() > 0.5 * matrix.shape[0] ** -0.5
        layer.weight.data = matrix.T
        if bias:
            layer.bias.data = weights[f"layer{number}.bias"]
        layers += [layer, nn.Tanh()]
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(encoder(weights, x), nn.Sequential(*layers[:-1])(x))
    assert len(weights) == num_layers * (1 + bias)
