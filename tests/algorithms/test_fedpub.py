import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedpub import FedPub
from fedgraph_sim.algorithms.nn.masks import only_masks, without_masks
from fedgraph_sim.datasets.csbm import Csbm
from fedgraph_sim.datasets.subgraph import induced_subgraphs
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.tree import leaves

SMALL = {"hidden": 4, "proxy_blocks": 2, "proxy_block_size": 5, "proxy_p_in": 0.4}
PARAMETERS = (2 * 4 + 4) + (4 * 4 + 4) + (4 * 2 + 2)  # of the graphs of `path_graphs`
PROXY = (10 * 2 + 10) * 4  # bytes of a random graph of 10 nodes: what it makes of 2 features, and a mean
SIMILARITIES = ("functional", "parameter", "gradient", "label")


def equal(one, other):
    return all(torch.equal(leaf, other[name]) for name, leaf in one.items())


def close(one, other, tolerance=1e-5):
    for name, leaf in one.items():
        torch.testing.assert_close(leaf, other[name], rtol=tolerance, atol=tolerance)


def states(fed):
    return fed._runner.states()


def begin(algorithm, fed):
    server = algorithm.setup(fed)
    fed.begin(round=1, kind="train")
    return server


def parameters(generator, dtype=torch.float64):
    shapes = {"conv1.weight": (3, 2), "conv1.bias": (2,), "head.weight": (2, 2), "conv1.weight.mask": (3, 2)}
    return {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize(("l1", "prox"), [(0.3, 0.0), (0.0, 0.7), (0.3, 0.7)])
def test_gradients_of_the_regularisers_are_the_slopes(l1, prox):
    generator = torch.Generator().manual_seed(0)
    received, weights = without_masks(parameters(generator)), parameters(generator)
    algorithm = FedPub(l1=l1, prox=prox)

    def value(weights):
        return algorithm.regularization(weights, received)

    distance = sum((weights[name] - leaf).square().sum().item() for name, leaf in received.items())
    assert value(weights).item() == pytest.approx(
        l1 * weights["conv1.weight.mask"].abs().sum().item() + prox * distance
    )
    gradient = torch.func.grad(value)(weights)
    step = 1e-6
    for name, leaf in weights.items():
        for index in range(leaf.numel()):
            moved = torch.zeros(leaf.numel(), dtype=leaf.dtype)
            moved[index] = step
            above, below = ({**weights, name: leaf + sign * moved.view_as(leaf)} for sign in (1, -1))
            slope = (value(above) - value(below)).item() / (2 * step)
            assert gradient[name].flatten()[index].item() == pytest.approx(slope, abs=1e-7)


def test_gradients_of_the_regularisers_are_the_same_for_all_clients_at_once():
    generator = torch.Generator().manual_seed(1)
    clients = [parameters(generator) for _ in range(3)]
    received = without_masks(parameters(generator))
    clients[1]["conv1.weight.mask"][0, 0] = 0.0  # where |m| has a kink, its subgradient is 0
    gradient = torch.func.grad(FedPub(l1=0.3, prox=0.7).regularization)
    stacked = {name: torch.stack([client[name] for client in clients]) for name in clients[0]}
    together = torch.vmap(gradient, in_dims=(0, None))(stacked, received)
    for position, client in enumerate(clients):
        alone = gradient(client, received)
        assert equal(alone, {name: leaf[position] for name, leaf in together.items()})
    assert together["conv1.weight.mask"][1, 0, 0] == 0


@pytest.mark.parametrize("optimizer_state", ["keep", "reset"])
def test_a_client_trains_weights_and_masks_like_plain_adam(path_graphs, make_federation, optimizer_state):
    options = {"lr": 0.05, "weight_decay": 0.1, "local_epochs": 2, "l1": 0.01, "prox": 0.02, "dropout": 0.0}
    algorithm = FedPub(**SMALL, **options, optimizer_state=optimizer_state)
    graph = GraphTensors.of(path_graphs[0], torch.device("cpu"))
    fed = make_federation(algorithm, path_graphs[:1])
    weights = {name: leaf.clone().requires_grad_() for name, leaf in algorithm.initial_weights(fed).items()}
    masks = {name: torch.ones_like(leaf).requires_grad_() for name, leaf in weights.items() if leaf.dim() == 2}

    def adam():
        return torch.optim.Adam([*weights.values(), *masks.values()], lr=0.05, weight_decay=0.1)

    optimizer = adam()
    server = algorithm.setup(fed)
    for number in range(1, 4):
        received = {name: leaf.detach().clone() for name, leaf in weights.items()}
        optimizer = adam() if optimizer_state == "reset" else optimizer
        for _ in range(2):
            optimizer.zero_grad()
            logits = algorithm.network({name: leaf * masks.get(name, 1.0) for name, leaf in weights.items()}, graph)
            loss = F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
            loss = loss + 0.01 * sum(mask.abs().sum() for mask in masks.values())
            loss = loss + 0.02 * sum((leaf - received[name]).square().sum() for name, leaf in weights.items())
            loss.backward()
            optimizer.step()
        fed.begin(round=number, kind="train")
        server = algorithm.round(fed, server)
    own = states(fed)[0]["weights"]
    close(weights, own)
    close({f"{name}.mask": leaf for name, leaf in masks.items()}, own)
    close(weights, {name: leaf[0] for name, leaf in server["personal"].tree().items()})


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_dense_bytes(path_graphs, make_federation, train, similarity, fraction):
    algorithm = FedPub(**SMALL, similarity=similarity)
    fed = make_federation(algorithm, path_graphs * 2, fraction=fraction)
    train(algorithm, fed, 3)
    participations, embedding = 3 * int(4 * fraction), 4 if similarity == "functional" else 0
    assert fed.ledger.total("down", "train") == participations * PARAMETERS * 4
    assert fed.ledger.total("up", "train") == participations * (PARAMETERS + embedding) * 4
    proxy = PROXY if similarity == "functional" else 0
    assert fed.ledger.total("down", "setup") == 4 * (PARAMETERS * 4 + proxy)
    assert fed.ledger.total("up", "setup") == (4 * 2 * 8 if similarity == "label" else 0)  # counts of 2 classes


def sparse_bytes(tree, position):
    """Non-zero values with an int32 each, or all values, whatever is less."""
    return sum(min(leaf[position].numel() * 4, 8 * int((leaf[position] != 0).sum())) for _, leaf in leaves(tree))


@pytest.mark.parametrize("batched", [False, True])
def test_sparse_bytes(path_graphs, make_federation, batched):
    algorithm = FedPub(**SMALL, l1=0.2, lr=0.05, threshold=0.3, local_epochs=5, sparse=True)
    fed = make_federation(algorithm, path_graphs * 2, batched=batched)
    server = algorithm.setup(fed)
    for number in range(1, 6):
        down = [sparse_bytes(server["personal"].tree(), client) for client in range(4)]
        fed.begin(round=number, kind="train")
        server = algorithm.round(fed, server)
        fed.settle()
        rows = [row for row in fed.ledger.table().to_pylist() if row["round"] == number]
        assert [row["bytes"] for row in rows if row["sender"] < 0] == down
        up = []
        for client, own in ((client, state["weights"]) for client, state in states(fed).items()):
            kept = {name: 1.0 * (mask.abs() > 0.3) for name, mask in only_masks(own).items()}
            sent = {name: leaf * kept.get(f"{name}.mask", 1.0) for name, leaf in without_masks(own).items()}
            up.append(4 * 4 + sparse_bytes({name: leaf[None] for name, leaf in sent.items()}, 0))
            for name in (name.removesuffix(".mask") for name in kept):
                assert not server["personal"].tree()[name][client][sent[name] == 0].any()
        assert [row["bytes"] for row in rows if row["sender"] >= 0] == up
    for direction in ("up", "down"):
        assert fed.ledger.total(direction, "train") < 0.8 * 5 * 4 * PARAMETERS * 4


def test_sparse_is_dense_where_no_mask_is_small(path_graphs, make_federation, train):
    dense, sparse = (FedPub(**SMALL, sparse=sparse) for sparse in (False, True))
    one, other = (train(each, make_federation(each, path_graphs), 3)["personal"].tree() for each in (dense, sparse))
    assert equal(one, other)


def test_more_l1_more_zeros_fewer_bytes(path_graphs, make_federation, train):
    def outcome(l1):
        algorithm = FedPub(**(SMALL | {"hidden": 16}), l1=l1, threshold=0.1, local_epochs=15, sparse=True)
        fed = make_federation(algorithm, path_graphs)
        train(algorithm, fed, 10)
        zeros, count = fed.call(algorithm.evaluate).tree["conv2_sparsity"].sum(dim=0).tolist()
        return zeros / count, fed.ledger.total("up", "train")

    outcomes = [outcome(l1) for l1 in (0.0, 1e-3, 1e-2)]
    shares, sizes = zip(*outcomes, strict=True)
    assert list(shares) == sorted(set(shares))
    assert list(sizes) == sorted(set(sizes), reverse=True)


def test_one_client_gets_back_what_it_sent(path_graphs, make_federation):
    algorithm = FedPub(**SMALL)
    fed = make_federation(algorithm, path_graphs[:1])
    server = algorithm.round(fed, begin(algorithm, fed))
    (matrix,) = fed.take_matrices()
    assert matrix.values.tolist() == [[1.0]]
    close(
        {name: leaf[0] for name, leaf in server["personal"].tree().items()},
        without_masks(states(fed)[0]["weights"]),
        1e-6,
    )


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_client_without_training_nodes(path_graphs, make_graph, make_federation, train, similarity, batched):
    idle = make_graph(3, [(0, 1)], role=np.array([0, 2, 3], np.int8))
    algorithm = FedPub(**SMALL, similarity=similarity, l1=0.1, prox=0.1, local_epochs=2, weight_decay=0.1)
    fed = make_federation(algorithm, [path_graphs[0], idle], batched=batched)
    server = begin(algorithm, fed)
    replies = fed.call_each(algorithm.train, server["personal"])
    assert equal(replies[1]["weights"], algorithm.initial_weights(fed))
    assert all((mask == 1).all() for mask in only_masks(states(fed)[1]["weights"]).values())
    server = train(algorithm, fed, 3)
    assert all(torch.isfinite(leaf).all() for leaf in server["personal"].tree().values())
    assert all(np.isfinite(matrix.values).all() for matrix in fed.take_matrices())


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_equal_clients_are_averaged_equally(path_graphs, make_federation, train, similarity):
    algorithm = FedPub(**SMALL, similarity=similarity, dropout=0.0)
    fed = make_federation(algorithm, path_graphs[:1] * 3)
    server = train(algorithm, fed, 2)
    (matrix,) = fed.take_matrices()
    np.testing.assert_allclose(matrix.values, np.ones((3, 3)), atol=1e-6)
    torch.testing.assert_close(algorithm.attention(torch.from_numpy(matrix.values)), torch.full((3, 3), 1 / 3))
    alone = train(algorithm, make_federation(algorithm, path_graphs[:1]), 2)
    for client in range(3):
        close({name: leaf[client] for name, leaf in server["personal"].tree().items()}, equal_part(alone), 1e-6)


def equal_part(server):
    return {name: leaf[0] for name, leaf in server["personal"].tree().items()}


def planted_clients(num_clients):
    """Clients 0, 2, 4, ... are of one group and 1, 3, 5, ... of another: there, features mean other classes."""
    data = Csbm(num_nodes=200 * num_clients, num_communities=num_clients, num_groups=2)
    graph = data.read(None, None)
    graph.role[:] = np.random.default_rng(7).integers(1, 4, graph.num_nodes)
    members = np.array_split(np.arange(graph.num_nodes), num_clients)
    return [part.graph for part in induced_subgraphs(graph, members)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_similarity_finds_two_planted_communities(make_federation, train, seed):
    algorithm = FedPub(hidden=32)
    fed = make_federation(algorithm, planted_clients(6), seed=seed, batched=True)
    train(algorithm, fed, 5)
    (matrix,) = fed.take_matrices()
    group = np.arange(6) % 2
    within = (group[:, None] == group) & ~np.eye(6, dtype=bool)
    between = group[:, None] != group
    assert matrix.values[within].min() > matrix.values[between].max()
    assert matrix.values[within].mean() > matrix.values[between].mean() + 0.1
    explicit = FedPub(communities=2).attention(torch.from_numpy(matrix.values))
    assert (explicit[torch.from_numpy(between)] == 0).all()
    assert (explicit[torch.from_numpy(within)] > 0).all()
    torch.testing.assert_close(explicit.sum(dim=1), torch.ones(6))


@pytest.mark.parametrize("batched", [False, True])
def test_a_personal_model_belongs_to_a_client_not_to_a_place(path_graphs, make_federation, batched):
    algorithm = FedPub(**SMALL, tau=5.0)
    fed = make_federation(algorithm, path_graphs * 3, fraction=0.5, batched=batched)
    server = algorithm.setup(fed)
    initial = algorithm.initial_weights(fed)
    expected = dict.fromkeys(fed.clients, initial)
    seen = set()
    for number in range(1, 5):
        fed.begin(round=number, kind="train")
        participants = fed.sample()
        seen.add(participants)
        before = {
            client: {name: leaf[client] for name, leaf in server["personal"].tree().items()} for client in fed.clients
        }
        for client in fed.clients:
            close(before[client], expected[client])
        server = algorithm.round(fed, server)
        (matrix,) = fed.take_matrices()
        assert matrix.clients == participants
        attention = algorithm.attention(torch.from_numpy(matrix.values))
        own = {client: states(fed)[client]["weights"] for client in participants}
        for row, client in zip(attention, participants, strict=True):
            expected[client] = {
                name: sum(share * own[other][name] for share, other in zip(row, participants, strict=True))
                for name in initial
            }
    assert len(seen) > 1
    assert any(client not in chosen for chosen in seen for client in fed.clients)


def naive_vectors(algorithm, fed, sent):
    """What each similarity compares, from the clients' own states."""
    own = [state["weights"] for state in states(fed).values()]
    flat = [torch.cat([leaf.flatten() for leaf in without_masks(each).values()]) for each in own]
    if algorithm.similarity == "parameter":
        return torch.stack(flat)
    if algorithm.similarity == "gradient":
        return torch.stack(flat) - torch.cat([leaf.flatten() for leaf in sent.values()])
    if algorithm.similarity == "label":
        return torch.tensor([[1.0, 1.0], [1.0, 0.0]])  # of the training nodes: the paths begin with classes 0, 1, 0
    graph = GraphTensors.of(algorithm.random_graph(fed), torch.device("cpu"))
    vectors = []
    for each in own:
        effective = {name: leaf * each.get(f"{name}.mask", 1.0) for name, leaf in without_masks(each).items()}
        h = torch.relu(algorithm.network.layer("conv1", effective, graph, graph.x))
        vectors.append(algorithm.network.layer("conv2", effective, graph, h).mean(dim=0))
    return torch.stack(vectors)


@pytest.mark.parametrize("model", ["gcn", "sage", "mlp"])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_similarity_is_the_cosine_of_what_is_compared(path_graphs, make_federation, similarity, model):
    algorithm = FedPub(**SMALL, similarity=similarity, model=model, lr=0.1)
    fed = make_federation(algorithm, path_graphs)
    algorithm.round(fed, begin(algorithm, fed))
    (matrix,) = fed.take_matrices()
    first, second = naive_vectors(algorithm, fed, algorithm.initial_weights(fed))
    expected = F.cosine_similarity(first, second, dim=0).item()
    assert (matrix.name, matrix.round, matrix.clients) == ("similarity", 1, (0, 1))
    np.testing.assert_allclose(matrix.values, [[1, expected], [expected, 1]], atol=1e-5)
    assert expected < 0.9999


@pytest.mark.parametrize("tau", [0.0, 3.0, 1000.0])
def test_attention_is_a_softmax_with_temperature(tau):
    similarity = torch.tensor([[1.0, 0.5, 0.2], [0.5, 1.0, 0.9], [0.2, 0.9, 1.0]])
    attention = FedPub(tau=tau).attention(similarity)
    for i in range(3):
        powers = [math.exp(tau * (similarity[i, j].item() - 1)) for j in range(3)]
        assert attention[i].tolist() == pytest.approx([power / sum(powers) for power in powers], abs=1e-6)


def test_communities_are_averaged_within():
    similarity = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
    attention = FedPub(communities=2, tau=0.0).attention(similarity)
    torch.testing.assert_close(attention, torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))


@pytest.mark.parametrize("batched", [False, True])
def test_without_masks_and_similarity_it_is_the_uniform_average(path_graphs, make_federation, train, batched):
    algorithm = FedPub(**SMALL, masks=False, tau=0.0)
    fed = make_federation(algorithm, path_graphs, batched=batched)
    server = train(algorithm, fed, 3)
    assert not any(only_masks(state["weights"]) for state in states(fed).values())

    class SameStart(FedAvg):
        def initial_weights(self, fed):
            return algorithm.initial_weights(fed)

    average = SameStart(hidden=4, weighting="uniform")
    expected = train(average, make_federation(average, path_graphs, batched=batched), 3)["weights"]
    for client in (0, 1):
        close({name: leaf[client] for name, leaf in server["personal"].tree().items()}, expected)


def test_the_threshold_acts_in_evaluation_and_not_in_training(path_graphs, make_federation):
    algorithm = FedPub(**SMALL, threshold=0.5, dropout=0.0)
    fed = make_federation(algorithm, path_graphs)
    weights = algorithm.initial_weights(fed)
    masks = {f"{name}.mask": torch.full_like(leaf, 0.4) for name, leaf in weights.items() if leaf.dim() == 2}
    graph = GraphTensors.of(path_graphs[0], torch.device("cpu"))
    scaled = {name: 0.4 * leaf if leaf.dim() == 2 else leaf for name, leaf in weights.items()}
    training = algorithm.logits(weights | masks, graph, random=object())
    torch.testing.assert_close(training, algorithm.network(scaled, graph))
    evaluation = algorithm.logits(weights | masks, graph)
    torch.testing.assert_close(evaluation, weights["head.bias"].expand(4, 2))


def test_masks_stay_at_home(path_graphs, make_federation):
    algorithm = FedPub(**SMALL)
    fed = make_federation(algorithm, path_graphs)
    server = begin(algorithm, fed)
    replies = fed.call_each(algorithm.train, server["personal"])
    assert set(replies.tree) == {"weights", "embedding"}
    assert set(replies.tree["weights"]) == set(server["personal"].tree()) == set(algorithm.initial_weights(fed))
    assert len(only_masks(states(fed)[0]["weights"])) == 3


def test_the_proximal_term_acts_from_the_second_epoch_on(path_graphs, make_federation, train):
    def moved(prox, local_epochs):
        algorithm = FedPub(**SMALL, prox=prox, local_epochs=local_epochs, dropout=0.0, weight_decay=0.0)
        fed = make_federation(algorithm, path_graphs)
        own = equal_part(train(algorithm, fed, 1))
        return sum((leaf - own[name]).square().sum().item() for name, leaf in algorithm.initial_weights(fed).items())

    assert moved(10.0, 1) == moved(0.0, 1)
    assert moved(10.0, 20) < moved(0.0, 20) / 2


def test_evaluation_tells_the_share_of_masks_within_the_threshold(path_graphs, make_federation):
    algorithm = FedPub(**SMALL, threshold=1.0)
    fed = make_federation(algorithm, path_graphs)
    algorithm.setup(fed)
    scores = fed.call(algorithm.evaluate).tree
    sizes = {"conv1_sparsity": 2 * 4, "conv2_sparsity": 4 * 4, "head_sparsity": 4 * 2}
    assert {name: scores[name].tolist() for name in sizes} == {name: [[n, n]] * 2 for name, n in sizes.items()}
    assert scores["test_accuracy"][:, 1].tolist() == [1, 1]


def test_the_seed_of_the_run_draws_the_random_graph(path_graphs, make_federation):
    algorithm = FedPub(**SMALL)

    def draw(seed):
        return algorithm.random_graph(make_federation(algorithm, path_graphs, seed=seed)).x

    assert np.array_equal(draw(0), draw(0))
    assert not np.array_equal(draw(0), draw(1))
    assert draw(0).shape == (10, 2)
