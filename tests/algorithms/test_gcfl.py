from itertools import combinations

import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.gcfl import Gcfl, cosines, minimum_cut, size, warping_distances
from fedgraph_sim.datasets.csbm import Csbm
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.subgraph import induced_subgraphs

PARAMETERS = 2 * 4 + 4 + 4 * 4 + 4 + 4 * 2 + 2  # of a GCN with 2 features, 4 hidden units and 2 classes
TWO_DIRECTIONS = torch.tensor([[3.0, 0, 0, 0], [-3.0, 0.5, 0, 0], [3.0, 0.5, 0, 0], [-3.0, 0, 0, 0]])


@pytest.fixture(scope="module")
def opposed():
    """Four clients: the only feature means other classes for clients 0 and 2 than for 1 and 3."""
    dataset = Csbm(
        num_nodes=400,
        num_features=1,
        num_communities=4,
        num_groups=2,
        feature_signal=400,
        bridge=0,
        largest_component=False,
        seed=2,
    )
    graph = Split().apply(dataset.load(None, None), 0)
    return [part.graph for part in induced_subgraphs(graph, np.array_split(np.arange(graph.num_nodes), 4))]


def state(updates, *, cluster=None, norms=None, num_norms=None):
    """Return a server's state before a cut. With lr=0.5 and updates of 4 weights the unit of sizes is 1."""
    count = len(updates)
    cluster = torch.zeros(count, dtype=torch.long) if cluster is None else torch.tensor(cluster)
    return {
        "models": {"w": torch.arange(int(cluster.max()) + 1.0)[:, None].expand(-1, updates.shape[1])},
        "cluster": cluster,
        "updates": {"w": updates},
        "norms": torch.zeros(count, 5) if norms is None else norms,
        "num_norms": torch.ones(count, dtype=torch.long) if num_norms is None else torch.tensor(num_norms),
    }


@pytest.mark.parametrize(("variant", "extra"), [("gcfl", 0), ("gcfl+", 4)])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_ledger(path_graphs, make_federation, train, variant, extra, fraction):
    rounds, participants = 3, 4 * fraction
    algorithm = Gcfl(hidden=4, variant=variant)
    fed = make_federation(algorithm, path_graphs * 2, fraction=fraction)
    train(algorithm, fed, rounds)
    ledger = fed.ledger
    assert ledger.total("down", "train") == rounds * participants * PARAMETERS * 4
    assert ledger.total("up", "train") == rounds * participants * (PARAMETERS * 4 + extra)  # and a gradient's norm
    assert ledger.total("down", "setup") == 4 * PARAMETERS * 4
    assert ledger.total("up", "setup") == 4 * 8


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("num_clients", [1, 4])
def test_one_cluster_is_fedavg(path_graphs, make_federation, train, num_clients, fraction):
    options, graphs = {"hidden": 4, "local_epochs": 2}, (path_graphs * 2)[:num_clients]
    clustered = Gcfl(**options, eps1=0.0, warmup=0)
    server = train(clustered, make_federation(clustered, graphs, fraction=fraction), 5)
    averaging = FedAvg(**options)
    expected = train(averaging, make_federation(averaging, graphs, fraction=fraction), 5)["weights"]
    assert server["cluster"].tolist() == [0] * num_clients
    for name, leaf in expected.items():
        torch.testing.assert_close(server["models"][name][0], leaf, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "updates", "fields", "cluster"),
    [
        ({}, TWO_DIRECTIONS, {}, [0, 1, 0, 1]),
        ({"eps1": 0.2}, TWO_DIRECTIONS, {}, [0, 0, 0, 0]),  # the mean update is 0.25 long
        ({"eps2": 3.1}, TWO_DIRECTIONS, {}, [0, 0, 0, 0]),  # the largest is 3.04 long
        ({}, TWO_DIRECTIONS[:2], {}, [0, 0]),  # two clients are never parted
        ({}, TWO_DIRECTIONS, {"num_norms": [1, 1, 0, 1]}, [0, 0, 0, 0]),  # client 2 has never answered
        ({}, torch.cat([TWO_DIRECTIONS] * 2), {"cluster": [0] * 4 + [1] * 4}, [0, 2, 0, 2, 1, 3, 1, 3]),
        ({"lr": 1.0}, TWO_DIRECTIONS, {}, [0, 1, 0, 1]),  # sizes are 0.125 and 1.52
        ({"lr": 1.0, "eps2": 2.0}, TWO_DIRECTIONS, {}, [0, 0, 0, 0]),
    ],
)
def test_when_and_how_a_cluster_is_cut(options, updates, fields, cluster):
    algorithm = Gcfl(**{"lr": 0.5, "eps1": 0.3, "eps2": 1.0} | options)
    before = state(updates, **fields)
    after = algorithm.cut(before)
    assert after["cluster"].tolist() == cluster
    assert len(after["models"]["w"]) == max(cluster) + 1
    for client, (old, new) in enumerate(zip(before["cluster"], after["cluster"], strict=True)):
        assert torch.equal(after["models"]["w"][new], before["models"]["w"][old])  # a half starts from the whole
        was_cut = cluster.count(cluster[client]) < before["cluster"].tolist().count(int(old))
        assert after["num_norms"][client] == (0 if was_cut else before["num_norms"][client])


@pytest.mark.parametrize("standardize", [False, True])
def test_gcfl_plus_compares_the_courses_of_gradient_norms(standardize):
    rising, falling = torch.tensor([1.0, 1, 2, 3, 4]), torch.tensor([4.0, 4, 3, 2, 1])
    # The second rises and falls later, and on another scale: warping and standardising see through it.
    scale = 3.0 if standardize else 1.0
    norms = torch.stack(
        [rising, falling, scale * torch.tensor([1.0, 1, 1, 2, 4]), scale * torch.tensor([4.0, 4, 4, 3, 1])]
    )
    algorithm = Gcfl(variant="gcfl+", lr=0.5, eps1=0.3, eps2=1.0, standardize=standardize)
    updates = TWO_DIRECTIONS[[0, 1, 3, 2]]  # by their directions, 0 and 3 belong together
    assert algorithm.cut(state(updates, norms=norms, num_norms=[5] * 4))["cluster"].tolist() == [0, 1, 0, 1]
    assert algorithm.cut(state(updates, norms=norms, num_norms=[5, 5, 4, 5]))["cluster"].tolist() == [0] * 4


def test_sequences_are_kept_by_client(path_graphs, make_federation, train):
    algorithm = Gcfl(hidden=4, variant="gcfl+", seq_length=3)
    fed = make_federation(algorithm, path_graphs * 2, fraction=0.5)
    server = algorithm.setup(fed)
    expected = [[0.0] * 3 for _ in range(4)]
    for number in range(1, 7):
        fed.begin(round=number, kind="train")
        server = algorithm.round(fed, server)
        for client in fed.sample():
            expected[client] = [
                *expected[client][1:],
                fed._runner.states()[client]["optimizer"]["gradient_norm"].item(),
            ]
    assert server["norms"].tolist() == expected
    assert server["num_norms"].sum() == 6 * 2


def test_the_norm_is_that_of_the_gradient(path_graphs, make_federation):
    algorithm = Gcfl(hidden=4, dropout=0.0, variant="gcfl+", weight_decay=0.5)
    fed = make_federation(algorithm, path_graphs[:1])
    server = algorithm.setup(fed)
    weights = {name: leaf[0].clone().requires_grad_() for name, leaf in server["models"].items()}
    graph = fed._runner._hosts[0]._groups[0]._data[0]
    logits = algorithm.network(weights, graph)
    torch.nn.functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
    expected = torch.cat([leaf.grad.flatten() for leaf in weights.values()]).norm()
    fed.begin(round=1, kind="train")
    torch.testing.assert_close(algorithm.round(fed, server)["norms"][0, -1], expected)


def test_two_planted_groups_are_parted(opposed, make_federation, train):
    def losses(algorithm):
        fed = make_federation(algorithm, opposed, batched=True)
        server = train(algorithm, fed, 60)
        fed.begin(round=60, kind="eval")
        return server, fed.call(algorithm.evaluate).tree["val_loss"][:, 0]

    options = {"hidden": 16, "dropout": 0.0}
    server, clustered = losses(Gcfl(**options))
    assert server["cluster"].tolist() == [0, 1, 0, 1]
    _, averaged = losses(FedAvg(**options))
    assert (clustered < averaged).all()


def test_clusters_train_apart_and_batched_equals_loop(opposed, make_federation):
    algorithm = Gcfl(hidden=4, variant="gcfl+", warmup=0, eps1=1e9, eps2=0.0, seq_length=2)
    outcomes = []
    for batched in (False, True):
        fed = make_federation(algorithm, opposed, batched=batched, fraction=0.75)
        server = algorithm.setup(fed)
        for number in range(1, 9):
            fed.begin(round=number, kind="train")
            before, server = server, algorithm.round(fed, server)
            taking_part = set(server["cluster"][list(fed.sample())].tolist())
            for label in range(len(server["models"]["head.bias"])):
                parent = before["cluster"][server["cluster"] == label][0]
                moved = not torch.equal(server["models"]["head.bias"][label], before["models"]["head.bias"][parent])
                assert moved == (label in taking_part)
        outcomes.append(server)
    loop, batched = outcomes
    assert loop["cluster"].max() >= 1
    assert torch.equal(loop["cluster"], batched["cluster"])
    for name, leaf in loop["models"].items():
        torch.testing.assert_close(batched["models"][name], leaf, rtol=1e-5, atol=1e-5)


def test_no_cut_before_the_end_of_the_warm_up(path_graphs, make_federation, train):
    algorithm = Gcfl(hidden=4, warmup=3, eps1=1e9, eps2=0.0)
    largest = [
        train(algorithm, make_federation(algorithm, path_graphs * 2), rounds)["cluster"].max() for rounds in (3, 4)
    ]
    assert largest == [0, 1]


@pytest.mark.parametrize("variant", ["gcfl", "gcfl+"])
def test_clients_without_training_nodes_do_no_harm(path_graphs, make_graph, make_federation, train, variant):
    idle = make_graph(3, [(0, 1)], role=np.zeros(3, np.int8))
    algorithm = Gcfl(
        hidden=4, variant=variant, warmup=0, eps1=1e9, eps2=0.0, seq_length=2, standardize=True, weight_decay=0.1
    )
    fed = make_federation(algorithm, [*path_graphs, idle, idle])
    server = train(algorithm, fed, 12)
    assert server["cluster"].max() >= 1
    assert all(torch.isfinite(leaf).all() for leaf in server["models"].values())
    assert not any(leaf[2:].any() for leaf in server["updates"].values())


def test_sizes_and_cosines():
    vectors = {"a": torch.tensor([[[3.0, 0.0]], [[0.0, 2.0]], [[0.0, 0.0]]]), "b": torch.tensor([[4.0], [0.0], [0.0]])}
    assert size(vectors).tolist() == [5, 2, 0]
    vectors["b"] = torch.tensor([[4.0], [-1.0], [0.0]])
    expected = -4 / (5 * 5**0.5)
    np.testing.assert_allclose(cosines(vectors), [[1, expected, 0], [expected, 1, 0], [0, 0, 0]], atol=1e-6)


def test_warping_distances():
    def least(s, t):
        """Return the least sum over all paths, by its definition."""
        if not s or not t:
            return np.inf if s or t else 0.0
        return (s[-1] - t[-1]) ** 2 + min(least(s[:-1], t[:-1]), least(s[:-1], t), least(s, t[:-1]))

    sequences = np.random.default_rng(0).random((4, 5))
    expected = [[np.sqrt(least(list(s), list(t))) for t in sequences] for s in sequences]
    np.testing.assert_allclose(warping_distances(sequences), expected)
    scaled = sequences * np.array([[1], [2], [3], [4]])
    assert not np.allclose(warping_distances(scaled), expected)
    np.testing.assert_allclose(
        warping_distances(scaled, standardize=True), warping_distances(sequences, standardize=True)
    )
    assert np.isfinite(warping_distances(np.ones((2, 3)), standardize=True)).all()


@pytest.mark.parametrize("seed", range(5))
def test_minimum_cut(seed):
    weights = np.random.default_rng(seed).random((6, 6)) ** 4
    weights = np.triu(weights, k=1) + np.triu(weights, k=1).T
    weights[0, 1] = weights[1, 0] = 0  # no similarity at all is no obstacle

    def cut(half):
        return weights[np.ix_(half, [node for node in range(6) if node not in half])].sum()

    halves = [half for count in range(1, 6) for half in combinations(range(1, 6), count)]
    assert cut(minimum_cut(weights)) == pytest.approx(min(map(cut, halves)))


def test_clients_that_nothing_tells_apart_can_be_cut():
    assert 0 < len(minimum_cut(np.zeros((4, 4)))) < 4
