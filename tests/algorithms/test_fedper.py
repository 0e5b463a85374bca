import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedper import FedPer

HIDDEN, NUM_FEATURES, NUM_CLASSES = 4, 2, 2
SHARED = {
    1: NUM_FEATURES * HIDDEN + HIDDEN + HIDDEN * HIDDEN + HIDDEN,  # both hidden layers
    2: NUM_FEATURES * HIDDEN + HIDDEN,
}


def heads(fed):
    return [own["weights"]["head.weight"] for own in fed._runner.states().values()]


@pytest.mark.parametrize("personal_layers", [1, 2])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_the_personal_layers_never_travel(path_graphs, make_federation, train, personal_layers, fraction):
    rounds, shared = 3, SHARED[personal_layers]
    algorithm = FedPer(hidden=HIDDEN, personal_layers=personal_layers)
    fed = make_federation(algorithm, path_graphs * 2, fraction=fraction)
    server = train(algorithm, fed, rounds)
    assert sum(leaf.numel() for leaf in server["weights"].values()) == shared
    ledger, participants = fed.ledger, 4 * fraction
    assert ledger.total("down", "train") == rounds * participants * shared * 4
    assert ledger.total("up", "train") == rounds * participants * shared * 4
    assert ledger.total("down", "setup") == 4 * (shared * 4 + 16)  # and the width of the head and a seed
    assert ledger.total("up", "setup") == 4 * 8  # each client's number of training nodes


def test_the_base_is_averaged_and_the_heads_are_not(path_graphs, make_federation, train):
    algorithm = FedPer(hidden=HIDDEN)
    fed = make_federation(algorithm, path_graphs)
    server = algorithm.setup(fed)
    before = heads(fed)
    fed.begin(round=1, kind="train")
    first, second = fed.call(algorithm.train, server["weights"]).values()
    expected = {name: (2 * leaf + second["weights"][name]) / 3 for name, leaf in first["weights"].items()}
    averaged = train(algorithm, make_federation(algorithm, path_graphs), 1)["weights"]
    assert set(averaged) == {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"}
    for name, leaf in averaged.items():
        torch.testing.assert_close(leaf, expected[name])
    after = heads(fed)
    assert not torch.equal(*after)
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(("personal_start", "equal"), [("same", True), ("own", False)])
def test_clients_draw_the_same_heads_or_their_own(path_graphs, make_federation, personal_start, equal):
    algorithm = FedPer(hidden=HIDDEN, personal_start=personal_start)

    def drawn(seed):
        fed = make_federation(algorithm, path_graphs, seed=seed)
        algorithm.setup(fed)
        return heads(fed)

    assert torch.equal(*drawn(0)) == equal
    assert torch.equal(drawn(0)[0], drawn(0)[0])
    assert not torch.equal(drawn(0)[0], drawn(1)[0])


@pytest.mark.parametrize("batched", [False, True])
def test_a_head_stays_with_its_client_whoever_takes_part(path_graphs, make_federation, batched):
    algorithm = FedPer(hidden=HIDDEN)
    fed = make_federation(algorithm, path_graphs * 3, fraction=0.5, batched=batched)
    server = algorithm.setup(fed)
    for number in range(1, 5):
        before = [head.clone() for head in heads(fed)]
        fed.begin(round=number, kind="train")
        server = algorithm.round(fed, server)
        moved = [client for client, head in enumerate(heads(fed)) if not torch.equal(head, before[client])]
        assert tuple(moved) == fed.sample()


def test_one_client_trains_as_in_fedavg_from_the_same_weights(path_graphs, make_federation):
    per, avg = FedPer(hidden=HIDDEN), FedAvg(hidden=HIDDEN)
    fed = make_federation(per, path_graphs[:1])
    base = per.setup(fed)["weights"]
    weights = {name: leaf.clone() for name, leaf in fed._runner.states()[0]["weights"].items()}
    other = make_federation(avg, path_graphs[:1])
    server = avg.setup(other) | {"weights": weights}
    for each in (fed, other):
        each.begin(round=1, kind="train")
    own = per.round(fed, {"weights": base, "client_weights": server["client_weights"]})["weights"]
    all_layers = avg.round(other, server)["weights"]
    assert all(torch.equal(leaf, all_layers[name]) for name, leaf in own.items())
    assert torch.equal(heads(fed)[0], all_layers["head.weight"])


def test_a_client_without_training_nodes_keeps_its_head_and_takes_the_base(path_graphs, make_graph, make_federation):
    algorithm = FedPer(hidden=HIDDEN, weight_decay=0.1)
    idle = make_graph(3, [(0, 1)], role=np.zeros(3, np.int8))
    fed = make_federation(algorithm, [path_graphs[0], idle])
    server = algorithm.setup(fed)
    head = heads(fed)[1].clone()
    for number in (1, 2):
        received = server["weights"]
        fed.begin(round=number, kind="train")
        server = algorithm.round(fed, server)
    own = fed._runner.states()[1]["weights"]
    assert torch.equal(own["head.weight"], head)
    assert all(torch.equal(own[name], leaf) for name, leaf in received.items())
    assert all(torch.isfinite(leaf).all() for leaf in server["weights"].values())
