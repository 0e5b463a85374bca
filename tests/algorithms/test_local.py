import torch

from fedgraph_sim.algorithms.centralized import Centralized
from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.local import Local


def test_a_client_trains_as_if_it_were_the_only_one(path_graphs, make_federation, train):
    def losses(algorithm, graphs):
        fed = make_federation(algorithm, graphs)
        train(algorithm, fed, 3)
        fed.begin(round=3, kind="eval")
        return fed.call(algorithm.evaluate).tree["train_loss"][0]

    local = Local(hidden=4, dropout=0.0)
    expected = losses(FedAvg(hidden=4, dropout=0.0), path_graphs[:1])
    torch.testing.assert_close(losses(local, path_graphs), expected)
    torch.testing.assert_close(losses(Centralized(hidden=4, dropout=0.0), path_graphs[:1]), expected)


def test_all_start_from_the_same_weights(path_graphs, make_federation):
    algorithm = Local(hidden=4)
    fed = make_federation(algorithm, path_graphs)
    algorithm.setup(fed)
    initial = algorithm.initial_weights(fed)
    for own in fed._runner.states().values():
        assert all(torch.equal(own["weights"][name], initial[name]) for name in initial)
