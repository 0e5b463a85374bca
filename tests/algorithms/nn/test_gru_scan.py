"""The recurrence written by hand against torch.nn.GRU and autograd."""

import pytest
import torch
from torch import nn

from fedgraph_sim.algorithms.nn.gru_scan import ROWS, gru_scan

STEPS = 4


def drawn(num_layers, width, rows, num_inputs=2):
    """Return inputs, state, and the weights of `num_layers` layers and a head, in double precision."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.double) / 2

    layers = []
    for layer in range(num_layers):
        below = num_inputs if layer == 0 else width
        layers += [normal(3 * width, below), normal(3 * width, width), normal(3 * width), normal(3 * width)]
    return normal(STEPS, rows, num_inputs), normal(num_layers, rows, width), (normal(width), normal(1)), layers


def reference(inputs, feedback, state, head, layers):
    """Return what `gru_scan` does, by torch.nn.GRU one step after another."""
    width, num_layers = state.shape[-1], state.shape[0]
    gru = nn.GRU(inputs.shape[-1], width, num_layers).double()
    weights = dict(zip([name for name, _ in gru.named_parameters()], layers, strict=True))
    outputs = []
    for step, x in enumerate(inputs):
        if step > 0:
            first = feedback[step] * outputs[-1] + (1 - feedback[step]) * x[:, 0]
            x = torch.cat([first[:, None], x[:, 1:]], dim=1)
        output, state = torch.func.functional_call(gru, weights, (x[None], state))
        outputs.append(output[0] @ head[0] + head[1])
    return torch.stack(outputs), state


@pytest.mark.parametrize(("num_layers", "rows"), [(1, 3), (2, 3), (3, 1), (1, 2 * ROWS + 7)])
def test_it_is_torch_s_gru_forwards_and_backwards(num_layers, rows):
    inputs, state, head, layers = drawn(num_layers, 5, rows)
    feedback = torch.tensor([0, 1, 0, 1], dtype=torch.double)
    leaves = [leaf.requires_grad_() for leaf in (state, *head, *layers)]
    results = []
    for function in (gru_scan, reference):
        outputs, last = function(inputs, feedback, state, head, layers)
        total = (outputs * torch.linspace(-1, 1, rows)).sum() + last.square().sum()
        results.append([outputs.detach(), last.detach(), *torch.autograd.grad(total, leaves)])
    for own, expected in zip(*results, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-9)


def test_without_a_head_only_the_state_comes_out():
    inputs, state, _, layers = drawn(1, 5, 3)
    none, feedback = inputs.new_empty(0), inputs.new_zeros(STEPS)
    outputs, last = gru_scan(inputs, feedback, state, (none, none), layers)
    assert not outputs.any()
    head = (torch.zeros(5, dtype=torch.double), torch.zeros(1, dtype=torch.double))
    torch.testing.assert_close(last, reference(inputs, feedback, state, head, layers)[1])


@pytest.mark.parametrize("shared", ["nothing", "weights", "inputs"])
def test_many_clients_in_one_operation_are_one_after_another(shared):
    num_clients = 3
    inputs, state, head, layers = drawn(2, 4, ROWS - 100)  # clients do not fill a piece evenly
    scale = torch.arange(1, num_clients + 1, dtype=torch.double)

    def each(leaf):
        return scale.view(-1, *[1] * leaf.dim()) * leaf

    weights = [head[0], head[1], *layers]
    weights_each, inputs_each = [each(leaf) for leaf in weights], each(inputs)
    feedback = torch.tensor([0, 1, 1, 0], dtype=torch.double)

    def loss(weights, inputs):
        outputs, last = gru_scan(inputs, feedback, state, (weights[0], weights[1]), weights[2:])
        return outputs.square().sum() + last.sum()

    dims = {"nothing": (0, 0), "weights": (None, 0), "inputs": (0, None)}[shared]
    arguments = (weights if dims[0] is None else weights_each, inputs if dims[1] is None else inputs_each)
    together = torch.vmap(torch.func.grad(loss), in_dims=dims)(*arguments)
    for client in range(num_clients):
        own = weights if dims[0] is None else [leaf[client] for leaf in weights_each]
        alone = torch.func.grad(loss)(own, inputs if dims[1] is None else inputs_each[client])
        for part, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(part[client], expected)
