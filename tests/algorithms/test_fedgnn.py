from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedgnn import FedGnn, expansions, held_by_several, rows_of_each
from fedgraph_sim.engine.graph_tensors import GraphTensors

HIDDEN = 4
PARAMETERS = 2 * HIDDEN + HIDDEN + HIDDEN * HIDDEN + HIDDEN + HIDDEN * 2 + 2  # of a GCN: 2 features, 2 classes
NUMBERS = ([10, 11, 12], [11, 13], [13, 11, 14], [15])


@pytest.fixture(scope="module")
def overlapping(make_graph):
    """Four clients that share nodes 11 and 13:   10-11-12   11-13   14-13-11   15."""
    entries = ([(0, 1), (1, 2)], [(0, 1)], [(0, 1), (0, 2)], [])
    features = np.random.default_rng(0).random((16, 2)).astype(np.float32)
    return [
        make_graph(len(nodes), edges, both_ways=True, node_id=np.array(nodes), x=features[nodes], y=np.array(nodes) % 2)
        for nodes, edges in zip(NUMBERS, entries, strict=True)
    ]


@pytest.fixture(scope="module")
def disjoint(path_graphs):
    """Two clients that share nothing."""
    first, second = path_graphs
    return [first, replace(second, node_id=second.node_id + first.num_nodes)]


def test_who_lacks_whom(overlapping, make_federation):
    algorithm = FedGnn(hidden=HIDDEN)
    fed = make_federation(algorithm, overlapping)
    nodes = list(fed.call(algorithm.announce).stack("node"))
    assert [part.tolist() for part in nodes] == list(NUMBERS)
    shared = held_by_several(nodes)
    assert [part.tolist() for part in shared] == [[11], [11, 13], [13, 11], []]
    links = fed.call_each(algorithm.report, {"node": shared})
    ends = [list(zip(part["node"].tolist(), part["neighbor"].tolist(), strict=True)) for part in links.values()]
    assert ends == [[(11, 10), (11, 12)], [(11, 13), (13, 11)], [(13, 11), (13, 14), (11, 13)], []]

    plan = expansions(nodes, list(links.values()))
    # Everybody's wanted nodes: 10 and 12 of client 0; 13 of clients 1 and 2; 14 of client 2.
    assert plan.num_wanted == 4
    table = [10, 12, 13, 14]
    assert [[table[row] for row in rows] for rows in rows_of_each(plan.server["wanted"])] == [
        [10, 12],
        [13],
        [13, 14],
        [],
    ]
    assert [[table[row] for row in rows] for rows in rows_of_each(plan.server["lacked"])] == [
        [13],
        [10, 12, 14],
        [10, 12],
        [],
    ]
    assert [part.tolist() for part in plan.messages["wanted"]] == [[0, 2], [1], [0, 2], []]
    # Client 0 joins 13 to its node 11; client 1 joins 10 and 12 to 11, and 14 to 13; client 2 joins 10 and 12 to 11.
    assert [part.tolist() for part in plan.messages["node"]] == [[1], [0, 0, 1], [1, 1], []]
    assert [part.tolist() for part in plan.messages["neighbor"]] == [[0], [0, 1, 2], [0, 1], []]
    assert all((part == 1).all() for part in plan.messages["weight"])


@pytest.mark.parametrize("model", ["gcn", "sage", "mlp"])
def test_the_model_sees_the_neighbours_that_a_client_lacks(overlapping, make_graph, make_federation, model):
    algorithm = FedGnn(hidden=HIDDEN, model=model)
    fed = make_federation(algorithm, overlapping)
    server = algorithm.setup(fed)
    weights, network = server["weights"], algorithm.network
    first = [
        torch.relu(network.layer("conv1", weights, tensors, tensors.x)) for tensors in map(as_tensors, overlapping)
    ]
    rows = torch.stack([first[0][0], first[0][2], (first[1][1] + first[2][0]) / 2, first[2][2]])
    torch.testing.assert_close(server["embedding"], rows)

    fed.begin(round=1, kind="train")
    algorithm.round(fed, server)
    # Client 1 holds 11-13; behind these come the neighbours 10, 12 and 14 that it lacks.
    whole = as_tensors(make_graph(5, [(0, 1), (0, 2), (0, 3), (1, 4)], both_ways=True))
    own = fed._runner.states()[1]["weights"]
    inner = torch.relu(network.layer("conv1", own, as_tensors(overlapping[1]), as_tensors(overlapping[1]).x))
    hidden = torch.cat([inner, rows[[0, 1, 3]]])
    logits = torch.relu(network.layer("conv2", own, whole, hidden))[:2] @ own["head.weight"] + own["head.bias"]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([1, 1]), reduction="sum")
    fed.begin(round=1, kind="eval")
    torch.testing.assert_close(
        fed.call(algorithm.evaluate).tree["train_loss"][1], torch.stack([loss, torch.tensor(2.0)])
    )


def as_tensors(graph):
    return GraphTensors.of(graph, torch.device("cpu"))


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_ledger(overlapping, make_federation, train, fraction):
    rounds = 3
    num_nodes, num_shared, num_links = [3, 2, 3, 1], [1, 2, 2, 0], [2, 2, 3, 0]
    num_edges, num_wanted, num_lacked = [1, 3, 2, 0], [2, 1, 2, 0], [1, 3, 2, 0]
    algorithm = FedGnn(hidden=HIDDEN)
    fed = make_federation(algorithm, overlapping, fraction=fraction)
    train(algorithm, fed, rounds)
    ledger, row = fed.ledger, 4 * HIDDEN
    assert ledger.total("down", "setup") == (
        4 * 4 * PARAMETERS + 8 * sum(num_shared) + (8 + 8 + 4) * sum(num_edges) + 8 * sum(num_wanted)
    )
    assert ledger.total("up", "setup") == (
        4 * 8 + 8 * sum(num_nodes) + (8 + 8 + 4) * sum(num_links) + row * sum(num_wanted)
    )
    down = up = 0
    for number in range(1, rounds + 1):
        fed.begin(round=number, kind="train")
        for client in fed.sample():
            down += 4 * PARAMETERS + row * num_lacked[client]
            up += 4 * PARAMETERS + row * num_wanted[client]
    assert (ledger.total("down", "train"), ledger.total("up", "train")) == (down, up)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_clients_that_share_nothing_do_as_in_fedavg(disjoint, make_federation, train, batched, count):
    # Without dropout, whose stream depends on how many calls a round has.
    fields, graphs = {"hidden": HIDDEN, "local_epochs": 2, "dropout": 0.0}, disjoint[:count]
    outcomes = []
    for algorithm in (FedGnn(**fields), FedAvg(**fields)):
        fed = make_federation(algorithm, graphs, batched=batched)
        server = train(algorithm, fed, 3)
        fed.begin(round=3, kind="eval")
        outcomes.append((server["weights"], fed.call(algorithm.evaluate).tree))
    for one, other in zip(*outcomes, strict=True):
        for name, leaf in one.items():
            torch.testing.assert_close(leaf, other[name], rtol=1e-5, atol=1e-6)


def test_who_does_not_take_part_leaves_and_keeps_the_old_embeddings(overlapping, make_federation):
    algorithm = FedGnn(hidden=HIDDEN)
    fed = make_federation(algorithm, overlapping, fraction=0.5)
    server = algorithm.setup(fed)
    wanted, lacked = (rows_of_each(server[key]) for key in ("wanted", "lacked"))
    for number in range(1, 7):
        before, kept = server["embedding"], [own["outside"] for own in fed._runner.states().values()]
        fed.begin(round=number, kind="train")
        server = algorithm.round(fed, server)
        renewed = {row for client in fed.sample() for row in wanted[client].tolist()}
        for row in range(len(before)) if number > 1 else ():  # in round 1 the weights are those of the set-up
            assert torch.equal(server["embedding"][row], before[row]) == (row not in renewed)
        for client, own in fed._runner.states().items():
            expected = server["embedding"][lacked[client]] if client in fed.sample() else kept[client]
            assert torch.equal(own["outside"], expected)


@pytest.mark.parametrize("batched", [False, True])
def test_a_client_without_training_nodes_still_gives_embeddings(
    overlapping, make_graph, make_federation, train, batched
):
    idle = make_graph(3, [(0, 1), (1, 2)], both_ways=True, node_id=np.array([11, 14, 20]), role=np.zeros(3, np.int8))
    algorithm = FedGnn(hidden=HIDDEN, weight_decay=0.1)
    fed = make_federation(algorithm, [*overlapping, idle], batched=batched)
    server = train(algorithm, fed, 3)
    assert [len(rows) for rows in rows_of_each(server["wanted"])] == [2, 1, 2, 0, 2]
    assert all(torch.isfinite(leaf).all() for leaf in server["weights"].values())
    fed.begin(round=3, kind="eval")
    scores = fed.call(algorithm.evaluate).tree
    assert scores["train_accuracy"][:, 1].tolist() == [3, 2, 3, 1, 0]
    assert torch.isfinite(scores["train_loss"]).all()


def test_weights_of_links_come_along():
    nodes = [torch.tensor([1, 2]), torch.tensor([2, 3])]
    link = {"node": torch.tensor([2]), "neighbor": torch.tensor([3]), "weight": torch.tensor([0.25])}
    nothing = {name: leaf[:0] for name, leaf in link.items()}
    plan = expansions(nodes, [nothing, link])
    assert [part.tolist() for part in plan.messages["weight"]] == [[0.25], []]
