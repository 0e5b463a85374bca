import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from scipy import sparse

from fedgraph_sim.algorithms.fedmlp import FedMlp
from fedgraph_sim.algorithms.gfl_appnp import GflAppnp
from fedgraph_sim.algorithms.nn.jacobians import FORMS
from fedgraph_sim.algorithms.nn.propagation import diagonal
from fedgraph_sim.datasets.client_graph import client_graph
from fedgraph_sim.datasets.csbm_clients import CsbmDnc, CsbmSc, CsbmSnc
from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.partitioners.column import Column
from fedgraph_sim.datasets.partitioners.node import Node
from fedgraph_sim.datasets.subgraph import induced_subgraphs
from fedgraph_sim.engine.tree import leaves

HIDDEN, FEATURES, CLASSES = 8, 12, 2
PARAMETERS = FEATURES * HIDDEN + HIDDEN * CLASSES


def clients_of(graph, partitioner):
    """Return the clients' graphs and how they are linked."""
    count = graph.num_nodes if graph.client is None else len(np.unique(graph.client))
    members = partitioner.assign(graph, count, seed=0)
    return [part.graph for part in induced_subgraphs(graph, members)], client_graph(graph, members)


@pytest.fixture(scope="module")
def dnc(tmp_path_factory):
    """30 node clients, of which 8 train, and the whole graph."""
    options = {"num_nodes": 30, "num_features": FEATURES, "num_train": 8, "num_val": 8, "degree": 5, "seed": 3}
    graph = CsbmDnc(**options, feature_signal=20).load(None, tmp_path_factory.mktemp("cache"))
    return (*clients_of(graph, Node()), graph)


@pytest.fixture(scope="module")
def snc(tmp_path_factory):
    """12 clients of 5 samples with one label, of which 4 train."""
    options = {"num_nodes": 12, "num_features": FEATURES, "num_train": 4, "num_val": 4, "degree": 5, "num_samples": 5}
    return clients_of(CsbmSnc(**options, seed=1).load(None, tmp_path_factory.mktemp("cache")), Column())


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    """16 clients of 4 training, 2 validation and 5 test samples."""
    options = {"num_nodes": 16, "num_features": FEATURES, "num_train": 4, "num_val": 2, "num_test": 5, "degree": 5}
    return clients_of(CsbmSc(**options, seed=1).load(None, tmp_path_factory.mktemp("cache")), Column())


def algorithm(**options):
    return GflAppnp(**{"hidden": HIDDEN, "lr": 0.5, "local_epochs": 1} | options)


def federation(make_federation, chosen, clients, **options):
    graphs, links, *_ = clients
    return make_federation(chosen, graphs, client_graph=links, **options)


def ppr(links, steps=10, teleport=0.1):
    """A~, by its closed form, in numpy."""
    looped = links.toarray() + np.eye(links.shape[0])
    scale = looped.sum(axis=1) ** -0.5
    s = scale[:, None] * looped * scale
    total = (1 - teleport) ** steps * np.linalg.matrix_power(s, steps)
    for i in range(steps):
        total += teleport * (1 - teleport) ** i * np.linalg.matrix_power(s, i)
    return torch.from_numpy(total)


def close(one, other, tolerance=1e-5):
    first, second = dict(leaves(one)), dict(leaves(other))
    assert first.keys() == second.keys()
    for path, leaf in first.items():
        torch.testing.assert_close(leaf.double(), second[path].double(), rtol=tolerance, atol=tolerance, msg=path)


@pytest.mark.parametrize("exchange", ["explicit", "implicit"])
@pytest.mark.parametrize("batched", [False, True])
def test_with_one_step_it_is_gradient_descent_on_centralised_appnp(dnc, make_federation, train, exchange, batched):
    chosen = algorithm(exchange=exchange)
    fed = federation(make_federation, chosen, dnc, batched=batched)
    weights = {name: leaf.double().requires_grad_() for name, leaf in chosen.initial_weights(fed).items()}
    graph, matrix = dnc[2], ppr(dnc[1])
    x, y = torch.from_numpy(graph.x).double(), torch.from_numpy(graph.y)
    mask = torch.from_numpy(graph.role == Role.TRAIN)
    for _ in range(50):
        z = matrix @ (torch.relu(x @ weights["layer1.weight"]) @ weights["layer2.weight"])
        gradients = torch.autograd.grad(F.cross_entropy(z[mask], y[mask]), list(weights.values()))
        weights = {
            name: (leaf - 0.5 * step).detach().requires_grad_()
            for (name, leaf), step in zip(weights.items(), gradients, strict=True)
        }
    trained = train(chosen, fed, 50)["weights"]
    close(trained, weights)
    assert not torch.allclose(trained["layer1.weight"], chosen.initial_weights(fed)["layer1.weight"], atol=0.1)


@pytest.mark.parametrize("name", ["dnc", "snc", "sc"])
@pytest.mark.parametrize("options", [{}, {"activation": "tanh"}, {"num_layers": 3, "bias": True}])
def test_the_first_step_goes_along_the_coupled_loss(name, options, make_federation, request):
    """With other representations as functions of the same weights, autograd and finite differences agree with it."""
    clients = request.getfixturevalue(name)
    chosen = algorithm(lr=1.0, **options)
    fed = federation(make_federation, chosen, clients)
    server = chosen.setup(fed)
    matrix = ppr(clients[1])
    rows = [part.role == Role.TRAIN if (part.role == Role.TRAIN).any() else part.role >= 0 for part in clients[0]]
    samples = [(part.x[own], part.y[own]) for part, own in zip(clients[0], rows, strict=True)]

    def loss(weights, client):
        means = torch.stack([chosen.encoder(weights, torch.from_numpy(x).double()).mean(0) for x, _ in samples])
        others = matrix[client].clone()
        others[client] = 0
        x, y = samples[client]
        z = matrix[client, client] * chosen.encoder(weights, torch.from_numpy(x).double()) + others @ means
        return F.cross_entropy(z, torch.from_numpy(y))

    fed.begin(round=1, kind="train")
    precise = {name: leaf.double() for name, leaf in server["weights"].items()}
    calls = []
    original = fed.call_each
    fed.call_each = lambda *args, **kwargs: calls.append(original(*args, **kwargs)) or calls[-1]
    chosen.round(fed, server)
    client = calls[-1].clients[0]
    step = {name: precise[name] - leaf.double() for name, leaf in calls[-1][client]["weights"].items()}
    close(step, torch.func.grad(loss)(precise, client), tolerance=1e-5)
    generator = torch.Generator().manual_seed(0)
    direction = {name: torch.randn(leaf.shape, generator=generator).double() for name, leaf in precise.items()}
    ends = [
        loss({name: leaf + sign * 1e-5 * direction[name] for name, leaf in precise.items()}, client) for sign in (1, -1)
    ]
    along = sum((step[name] * direction[name]).sum() for name in step)
    assert float((ends[0] - ends[1]) / 2e-5) == pytest.approx(float(along), abs=1e-4)


CASES = [
    ("dnc", {"local_epochs": 5}),
    ("snc", {"local_epochs": 3}),
    ("sc", {"local_epochs": 2, "batch_size": 2}),
    ("dnc", {"local_epochs": 2, "fraction": 0.4}),
    ("sc", {"local_epochs": 2, "fraction": 0.4, "activation": "sigmoid"}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_all_ways_to_compute_it_agree(name, options, make_federation, train, request):
    fields = {key: value for key, value in options.items() if key != "fraction"}
    outcomes = []
    for exchange in ("explicit", "implicit"):
        for batched in (False, True):
            chosen = algorithm(exchange=exchange, **fields)
            clients = request.getfixturevalue(name)
            fed = federation(make_federation, chosen, clients, batched=batched, fraction=options.get("fraction", 1.0))
            server = train(chosen, fed, 4)
            fed.begin(round=4, kind="eval")
            scores = chosen.ask_for_scores(fed, server).tree
            fed.settle()
            outcomes.append((server["weights"], scores, fed.ledger.table()))
    for weights, scores, ledger in outcomes[1:]:
        close(weights, outcomes[0][0])
        close(scores, outcomes[0][1])
        assert ledger.equals(outcomes[0][2])


def test_factors_need_two_layers_without_bias_and_jacobians_as_they_are():
    for options in ({"num_layers": 3}, {"bias": True}, {"noise_jacobian": 0.1}, {"clip_jacobian": 1.0}):
        with pytest.raises(ValidationError, match="exchange=implicit needs num_layers=2"):
            algorithm(exchange="implicit", **options)
        weights = algorithm(**options).encoder.init(5000, 9, torch.Generator())
        assert algorithm(**options).form(weights) is FORMS["explicit"]
    assert algorithm().form(algorithm().encoder.init(5000, 9, torch.Generator())) is FORMS["implicit"]
    assert algorithm().form(algorithm().encoder.init(5, 2, torch.Generator())) is FORMS["explicit"]


@pytest.mark.parametrize("exchange", ["explicit", "implicit"])
@pytest.mark.parametrize("compensation", ["gradient", "none"])
@pytest.mark.parametrize("fraction", [1.0, 0.4])
def test_ledger(dnc, make_federation, train, exchange, compensation, fraction):
    rounds, (graphs, *_) = 3, dnc
    chosen = algorithm(exchange=exchange, compensation=compensation)
    fed = federation(make_federation, chosen, dnc, fraction=fraction, batched=True)
    server = train(chosen, fed, rounds)
    num_clients, model, hidden = len(graphs), 4 * PARAMETERS, 4 * CLASSES
    jacobian = CLASSES * model if compensation == "gradient" else 0
    # Set-up: four counts come up; how many rows there are, and two entries of A~, go down.
    assert fed.ledger.total("up", "setup") == num_clients * 4 * 8
    assert fed.ledger.total("down", "setup") == num_clients * (8 + 2 * 4)
    up = down = 0
    for number in range(1, rounds + 1):
        fed.begin(round=number, kind="train")
        share, trains = len(fed.sample()), sum(graphs[client].count(Role.TRAIN) for client in fed.sample())
        down += share * model + trains * (hidden + jacobian)
        up += share * (hidden + jacobian) + trains * model
    assert (fed.ledger.total("down", "train"), fed.ledger.total("up", "train")) == (down, up)
    fed.begin(round=rounds, kind="eval")
    chosen.ask_for_scores(fed, server)
    fed.settle()
    assert fed.ledger.total("down", "eval") == num_clients * (model + hidden)
    assert fed.ledger.total("up", "eval") == num_clients * (hidden + 6 * 8)  # six pairs of a sum and a count


def test_a_client_gets_sums_alone(dnc, make_federation):
    """Client k gets sum_{i != k} A~_ki J_i, and nothing of any other client by itself."""
    chosen = algorithm(exchange="explicit")
    fed = federation(make_federation, chosen, dnc)
    server = chosen.setup(fed)
    sent = []
    original = fed.call_each
    fed.call_each = lambda step, messages, **options: sent.append(messages) or original(step, messages, **options)
    fed.begin(round=1, kind="train")
    chosen.round(fed, server)
    training = [client for client, graph in enumerate(dnc[0]) if graph.count(Role.TRAIN)]
    shared = fed.call(chosen.share_jacobian).tree
    others = ppr(dnc[1]).float()
    others.fill_diagonal_(0)
    close(sent[0]["context"], others[training] @ shared["hidden"])
    for name, leaf in sent[0]["jacobian"].items():
        assert leaf.shape == (len(training), CLASSES, *server["weights"][name].shape)
        torch.testing.assert_close(leaf, torch.einsum("kn,n...->k...", others[training], shared["jacobian"][name]))


def odd_federation(make_graph):
    """Five clients: an isolated one of one class, one without training samples, one without any role, two as usual."""
    rng = np.random.default_rng(0)

    def client(roles, labels):
        x = rng.standard_normal((len(roles), FEATURES)).astype(np.float32)
        return make_graph(len(roles), [], x=x, role=np.array(roles, np.int8), y=np.array(labels))

    graphs = [
        client([1, 1, 2, 3], [1, 1, 1, 1]),
        client([2, 3], [0, 1]),
        client([0, 0, 0], [-1, -1, -1]),
        client([1, 1, 1, 2, 3], [0, 1, 0, 1, 0]),
        client([1], [1]),
    ]
    links = np.zeros((5, 5))
    for one, other in ((1, 2), (2, 3), (3, 4)):
        links[one, other] = links[other, one] = 1
    return graphs, sparse.csr_array(links)


@pytest.mark.parametrize("exchange", ["explicit", "implicit"])
@pytest.mark.parametrize("batched", [False, True])
def test_odd_clients(make_graph, make_federation, train, exchange, batched):
    clients = odd_federation(make_graph)
    chosen = algorithm(exchange=exchange, local_epochs=2, batch_size=2)
    fed = federation(make_federation, chosen, clients, batched=batched)
    server = chosen.setup(fed)
    assert server["trains"].tolist() == [True, False, False, True, True]
    assert diagonal(server["rounds"])[0] == pytest.approx(1)
    server = train(chosen, fed, 3)
    assert all(torch.isfinite(leaf).all() for leaf in server["weights"].values())
    scores = chosen.ask_for_scores(fed, server).tree
    assert scores["train_accuracy"][:, 1].tolist() == [2, 0, 0, 3, 1]
    assert scores["test_accuracy"][:, 1].tolist() == [1, 1, 0, 1, 0]
    assert all(torch.isfinite(leaf).all() for leaf in scores.values())


def test_an_isolated_client_learns_as_without_a_graph(make_graph, make_federation, train):
    graphs, _ = odd_federation(make_graph)
    outcomes = []
    for kind in (algorithm(local_epochs=3), FedMlp(hidden=HIDDEN, lr=0.5, local_epochs=3)):
        fed = make_federation(kind, graphs[3:4])
        server = train(kind, fed, 4)
        outcomes.append((server["weights"], kind.ask_for_scores(fed, server).tree))
    close(*(weights for weights, _ in outcomes))
    close(*(scores for _, scores in outcomes))


def test_without_propagation_it_is_fedmlp(sc, make_federation, train):
    outcomes = []
    for kind in (algorithm(local_epochs=2, propagation_steps=0), FedMlp(hidden=HIDDEN, lr=0.5, local_epochs=2)):
        fed = federation(make_federation, kind, sc, batched=True)
        server = train(kind, fed, 4)
        outcomes.append((server["weights"], kind.ask_for_scores(fed, server).tree))
    close(*(weights for weights, _ in outcomes))
    close(*(scores for _, scores in outcomes))


def test_absent_clients_count_with_what_they_shared_last(dnc, make_federation):
    chosen = algorithm()
    fed = federation(make_federation, chosen, dnc, fraction=0.4)
    server = chosen.setup(fed)
    assert not server["hidden"].any()
    for number in range(1, 5):
        fed.begin(round=number, kind="train")
        before = server
        server = chosen.round(fed, server)
        fed.publish(before["weights"])
        now = fed.call(chosen.share).stack("hidden")
        for client in fed.clients:
            expected = now if client in fed.sample() else before["hidden"]
            torch.testing.assert_close(server["hidden"][client], expected[client])


def test_new_nodes_are_unknown_until_evaluation(dnc, make_federation, train):
    """Training does as if test nodes were not there; evaluation puts them, with all their links, into the graph."""
    graphs, links, whole = dnc
    chosen = algorithm(local_epochs=2, inductive=True)
    fed = federation(make_federation, chosen, dnc)
    server = train(chosen, fed, 5)
    seen = np.flatnonzero(whole.role != Role.TEST)
    without = [graphs[client] for client in seen], links[seen][:, seen]
    alone = algorithm(local_epochs=2)
    close(server["weights"], train(alone, federation(make_federation, alone, without), 5)["weights"])
    rows = [row for row in fed.ledger.table().to_pylist() if row["kind"] == "train"]
    assert {*(row["sender"] for row in rows), *(row["receiver"] for row in rows)} == {-1, *seen.tolist()}
    fed.begin(round=5, kind="eval")
    scores = chosen.ask_for_scores(fed, server).tree
    h = chosen.encoder(server["weights"], torch.from_numpy(whole.x)).double()
    right = (ppr(links) @ h).argmax(dim=1) == torch.from_numpy(whole.y)
    test = torch.from_numpy(whole.role == Role.TEST)
    assert scores["test_accuracy"][:, 0].sum() == right[test].sum()
    known = algorithm(local_epochs=2)
    assert not torch.equal(
        server["weights"]["layer1.weight"],
        train(known, federation(make_federation, known, dnc), 5)["weights"]["layer1.weight"],
    )
