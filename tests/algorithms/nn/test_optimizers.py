import pytest
import torch

from fedgraph_sim.algorithms.nn.optimizers import Adam

ALWAYS = torch.tensor(True)


def gradients_of(weights, number):
    generator = torch.Generator().manual_seed(number)
    return {name: torch.randn(leaf.shape, generator=generator) for name, leaf in weights.items()}


def start():
    generator = torch.Generator().manual_seed(0)
    return {"w": torch.randn(3, 2, generator=generator), "b": torch.randn(2, generator=generator)}


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_several_steps_equal_those_of_torch(weight_decay):
    weights = start()
    parameters = {name: leaf.clone().requires_grad_() for name, leaf in weights.items()}
    reference = torch.optim.Adam(parameters.values(), lr=0.05, weight_decay=weight_decay)
    optimizer = Adam(lr=0.05, weight_decay=weight_decay)
    moments = optimizer.init(weights)
    for number in range(5):
        gradients = gradients_of(weights, number)
        for name, parameter in parameters.items():
            parameter.grad = gradients[name].clone()
        reference.step()
        weights, moments = optimizer.update(weights, gradients, moments, where=ALWAYS)
    assert moments["step"].item() == 5
    for name, parameter in parameters.items():
        torch.testing.assert_close(weights[name], parameter.detach(), rtol=1e-6, atol=1e-7)


def test_the_first_step_by_hand():
    """m / sqrt(v) is the gradient's sign at the first step, so every weight moves by the learning rate."""
    weights, optimizer = {"w": torch.tensor([1.0, 1.0])}, Adam(lr=0.1)
    stepped, _ = optimizer.update(weights, {"w": torch.tensor([3.0, -0.5])}, optimizer.init(weights), where=ALWAYS)
    assert stepped["w"].tolist() == pytest.approx([0.9, 1.1], abs=1e-6)
    assert weights["w"].tolist() == [1, 1]


def test_nothing_changes_where_no_step_is_wanted():
    weights, optimizer = start(), Adam(lr=0.1, weight_decay=0.1)
    moments = optimizer.init(weights)
    stepped, after = optimizer.update(weights, gradients_of(weights, 1), moments, where=torch.tensor(False))
    assert all(torch.equal(stepped[name], weights[name]) for name in weights)
    assert after["step"].item() == 0
    assert not after["mean"]["w"].any()


@pytest.mark.parametrize("where", [[True, True, True], [True, False, True]])
def test_many_clients_at_once_step_as_each_alone(where):
    clients = [{name: leaf + number for name, leaf in start().items()} for number in range(3)]
    optimizer = Adam(lr=0.05, weight_decay=0.1)
    stacked = {name: torch.stack([client[name] for client in clients]) for name in clients[0]}
    moments = torch.vmap(optimizer.init)(stacked)
    chosen = torch.tensor(where)

    def update(weights, gradients, moments, where):
        return optimizer.update(weights, gradients, moments, where=where)

    for number in range(3):
        gradients = {name: leaf.sin() for name, leaf in gradients_of(stacked, number).items()}
        stacked, moments = torch.vmap(update)(stacked, gradients, moments, chosen)
    for client, weights in enumerate(clients):
        own = optimizer.init(weights)
        for number in range(3):
            gradients = {name: leaf.sin()[client] for name, leaf in gradients_of(stacked, number).items()}
            weights, own = optimizer.update(weights, gradients, own, where=chosen[client])
        for name, leaf in weights.items():
            torch.testing.assert_close(stacked[name][client], leaf)
        assert moments["step"][client] == own["step"]
