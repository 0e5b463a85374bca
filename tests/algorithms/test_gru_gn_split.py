import torch
from whole_model import leaves_of, whole_loss

from fedgraph_sim.algorithms.gru_gn_split import GruGnSplit

HIDDEN = 4
SMALL = {"hidden": HIDDEN, "batch_size": 16, "graph_hidden": 6, "graph_out": 3}


def test_split_learning_is_training_of_the_whole_model_step_by_step(make_series, make_sensors, train):
    series = make_series()
    algorithm = GruGnSplit(**SMALL, lr=0.01, server_lr=0.02, sampling_decay=1e-3)
    fed = make_sensors(algorithm, series)
    server = algorithm.setup(fed)
    scale = fed._runner._hosts[0]._groups[0].public
    own, network = [leaves_of(server["weights"]) for _ in range(4)], leaves_of(server["network"])
    clients = torch.optim.Adam([leaf for weights in own for leaf in weights.values()], lr=0.01)
    graph = torch.optim.Adam(network.values(), lr=0.02)
    for number in (1, 2):
        fed.begin(round=number, kind="train")
        phase = algorithm.server_phase(fed, server)
        for windows in phase.minibatches(len(series.starts["train"]), 16, 1):
            losses = whole_loss(
                algorithm, own, network, series, torch.from_numpy(series.starts["train"])[windows], scale
            )
            clients.zero_grad()
            graph.zero_grad()
            losses.sum().backward()
            for leaf in network.values():
                if leaf.grad is not None:
                    leaf.grad /= len(losses)
            clients.step()
            graph.step()
        server = algorithm.round(fed, server)
        states = fed._runner.states()
        for client, weights in enumerate(own):
            for name, leaf in weights.items():
                torch.testing.assert_close(states[client]["weights"][name], leaf.data, rtol=1e-4, atol=1e-5)
        for name, leaf in network.items():
            torch.testing.assert_close(server["network"][name], leaf.data, rtol=1e-4, atol=1e-5)


def test_bytes_of_split_learning(make_series, make_sensors, train):
    series, rounds = make_series(), 2
    algorithm = GruGnSplit(**SMALL)
    fed = make_sensors(algorithm, series)
    train(algorithm, fed, rounds)
    nodes, windows = series.num_nodes, len(series.starts["train"])
    size, numbers = windows * HIDDEN * 4, 4 * windows
    exchanged = fed.ledger.total("up", "train") + fed.ledger.total("down", "train")
    assert exchanged == rounds * nodes * (4 * size + numbers)
