import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedprox import FedProx


def test_proximal_term_and_its_gradient():
    received = {"w": torch.tensor([1.0, 2.0], dtype=torch.float64), "b": torch.tensor([0.5], dtype=torch.float64)}
    weights = {"w": torch.tensor([2.0, 0.0], dtype=torch.float64), "b": torch.tensor([0.0], dtype=torch.float64)}
    algorithm = FedProx(mu=0.3)
    assert algorithm.proximal_term(weights, received).item() == pytest.approx(0.15 * (1 + 4 + 0.25))
    gradient = torch.func.grad(algorithm.proximal_term)(weights, received)
    step = 1e-6
    for name, leaf in weights.items():
        for index in range(len(leaf)):
            moved = torch.zeros_like(leaf)
            moved[index] = step
            above, below = ({**weights, name: leaf + sign * moved} for sign in (1, -1))
            slope = (algorithm.proximal_term(above, received) - algorithm.proximal_term(below, received)) / (2 * step)
            assert gradient[name][index].item() == pytest.approx(slope.item(), abs=1e-8)


@pytest.mark.parametrize(
    ("mu", "local_epochs", "equal"), [(0.0, 1, True), (0.0, 3, True), (1.0, 1, True), (1.0, 2, False)]
)
def test_it_is_fedavg_without_the_term_and_without_a_second_step(
    path_graphs, make_federation, train, mu, local_epochs, equal
):
    options = {"hidden": 4, "local_epochs": local_epochs}
    prox, avg = FedProx(mu=mu, **options), FedAvg(**options)
    one, other = (train(each, make_federation(each, path_graphs), 3)["weights"] for each in (prox, avg))
    assert all(torch.equal(one[name], other[name]) for name in one) == equal


def test_a_strong_term_holds_the_weights_near(path_graphs, make_federation, train):
    def distance(mu):
        algorithm = FedProx(hidden=4, dropout=0.0, local_epochs=20, mu=mu)
        fed = make_federation(algorithm, path_graphs)
        moved = train(algorithm, fed, 1)["weights"]
        return sum((leaf - moved[name]).square().sum() for name, leaf in algorithm.initial_weights(fed).items())

    assert distance(100.0) < distance(0.0) / 4
