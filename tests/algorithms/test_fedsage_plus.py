from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.fedsage import FedSage
from fedgraph_sim.algorithms.fedsage_plus import FedSagePlus
from fedgraph_sim.algorithms.locsage_plus import LocSagePlus
from fedgraph_sim.algorithms.nn.neighgen import added_gradients, with_gradient
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.engine.client_axis import one
from fedgraph_sim.engine.federation import Task
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.seeds import keys_for, seed_for

F, LATENT, WIDTHS, SLOTS = 6, 4, (5, 3), 2
SMALL = {
    "hidden": 4,
    "latent": LATENT,
    "widths": WIDTHS,
    "num_pred": SLOTS,
    "pretrain_steps": 2,
    "generator_rounds": 2,
    "generator_batch": 5,
    "hide": 0.3,
    "batch_size": 4,
    "sizes": (3, 2),
}
JUDGED = (4 * 5 + 5) + (5 * 3 + 3) + SLOTS * (3 * F + F)
"""Numbers in the feature generator."""
COUNT = LATENT + 1
"""Numbers in what predicts how many neighbours are missing."""


def random_graph(num_nodes, num_edges, seed, role=1):
    rng = np.random.default_rng(seed)
    ends = np.unique(np.sort(rng.integers(0, num_nodes, (2, num_edges)), axis=0), axis=1)
    ends = ends[:, ends[0] != ends[1]]
    return Graph(
        x=rng.random((num_nodes, F), np.float32),
        edge_index=np.concatenate([ends, ends[::-1]], axis=1),
        edge_weight=None,
        y=rng.integers(0, 2, num_nodes),
        role=np.full(num_nodes, role, np.int8),
        node_id=np.arange(num_nodes),
        num_classes=2,
    )


@pytest.fixture(scope="module")
def graphs():
    return [random_graph(20, 40, seed) for seed in range(3)]


def rows_of(fed, step):
    return [row for row in fed.ledger.table().to_pylist() if row["step"] == step]


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_gradient_from_others_is_that_of_the_pooled_loss(graphs, make_federation, noise):
    algorithm = FedSagePlus(**SMALL, noise=noise, alpha=0.7, lambda_f=1.3)
    fed = make_federation(algorithm, graphs, seed=4)
    algorithm.setup(fed)
    fed.begin(round=1, kind="train")
    shared = fed.call(algorithm.share)
    gradients = fed.call_others(algorithm.judge, shared.keep(), added_gradients).tree()
    num_drawn = 0
    for owner, reply in shared.items():
        generator = {name: leaf.clone().requires_grad_() for name, leaf in reply["generator"].items()}
        keys = keys_for(seed_for(4, "judge", 1, 1 + owner), np.arange(3))
        loss = torch.zeros(())
        for judge in {0, 1, 2} - {owner}:
            random = RandomStream(torch.tensor(keys[judge])).fold(0)
            drawn, taken = pooled_draw(generator, reply["z"], random, noise)
            distances = torch.cdist(drawn, torch.from_numpy(graphs[judge].x)).square().min(dim=-1).values
            loss = loss + 1.3 * 0.7 * (distances * taken).sum() / len(reply["z"])
            num_drawn += int(taken.sum())
        loss.backward()
        nothing = {name: torch.zeros_like(leaf) for name, leaf in generator.items()}
        for name, leaf in with_gradient(nothing, one(gradients, owner)).items():
            expected = torch.zeros_like(leaf) if name.startswith("count.") else generator[name].grad
            torch.testing.assert_close(leaf, expected, rtol=1e-6, atol=1e-6)
    assert num_drawn > 10


def pooled_draw(generator, z, random, noise):
    """Return the features of every slot [b, SLOTS, F], and which slots the sampler takes [b, SLOTS]."""
    wanted = torch.relu(z @ generator["count.weight"] + generator["count.bias"]).round()
    priority = random.fold(0).bits(len(z) * SLOTS).reshape(len(z), SLOTS)
    taken = priority.argsort(dim=1).argsort(dim=1) < wanted
    h = z + noise * torch.randn(z.shape, generator=random.fold(1).generator())
    for name in ("hidden1", "hidden2"):
        h = torch.relu(h @ generator[f"{name}.weight"] + generator[f"{name}.bias"])
    slots = torch.einsum("bw,pwf->bpf", h, generator["features.weight"]) + generator["features.bias"]
    return torch.tanh(slots), taken


def test_a_generator_round_is_in_the_ledger_message_by_message(graphs, make_federation, train):
    algorithm = FedSagePlus(**SMALL)
    fed = make_federation(algorithm, graphs)
    train(algorithm, fed, 1)
    upload = 4 * (5 * LATENT + JUDGED + COUNT)

    def of(step, direction):
        other = "sender" if direction == "down" else "receiver"
        return [row["bytes"] for row in rows_of(fed, step) if row[other] == -1]

    assert of("share", "up") == [upload] * 3
    assert of("judge", "down") == [upload] * 6
    assert of("judge", "up") == [4 * JUDGED] * 6
    assert of("improve", "down") == [4 * JUDGED] * 3
    train_rows = [row for row in fed.ledger.table().to_pylist() if row["kind"] == "train"]
    assert sum(row["bytes"] for row in train_rows) == 9 * upload + 9 * 4 * JUDGED
    assert {row["round"] for row in train_rows} == {1}


def test_what_a_generator_round_costs_is_said_before(graphs, make_federation, train):
    algorithm, task = FedSagePlus(), Task(num_features=1433, num_classes=7)
    size = 4 * (128 * 256 + 256 + 256 * 2048 + 2048 + 5 * 2049 * 1433)  # fGen; dGen has 129 numbers
    matrices = 4 * 5 * 2048 * 1433
    factors = 64 * 5 * 4 * (2048 + 1433 + 1)
    for places, far in (([[0, 1, 2]], 0), ([[0, 2], [1]], 4), ([[0], [1], [2]], 6)):
        (line,) = algorithm.notices(task, places)
        stored = (3 * size if far else 0) + far * (size - matrices + factors)
        assert f"moves {9 * 2 * size / 1e9:.3g} GB" in line
        bound = "at most " if far else ""
        assert f"in the simulated federation, {bound}{stored / 1e9:.3g} GB through the object store" in line
    assert not FedSagePlus(mending="none").notices(task, [[0, 1]])


def test_generator_rounds_come_first_and_then_all_graphs_are_mended(graphs, make_federation, train):
    algorithm = FedSagePlus(**SMALL)
    assert algorithm.preparation_rounds == 2
    fed = make_federation(algorithm, graphs)
    server = train(algorithm, fed, 4)
    steps = [[row["step"] for row in fed.ledger.table().to_pylist() if row["round"] == number] for number in range(5)]
    assert set(steps[1]) == set(steps[2]) == {"share", "judge", "improve"}
    assert set(steps[3]) == {"mend", "train"}
    assert set(steps[4]) == {"train"}
    for state in fed._runner.states().values():
        assert state.keys() == {"weights", "optimizer", "neighbors", "generated"}
        assert len(state["generated"]["owner"]) > 0
    assert all(torch.isfinite(leaf).all() for leaf in server["weights"].values())


def test_what_is_generated_changes_what_is_learned(graphs, make_federation, train):
    def weights(**changes):
        algorithm = FedSagePlus(**SMALL, **changes)
        fed = make_federation(algorithm, graphs)
        return train(algorithm, fed, algorithm.preparation_rounds + 2)["weights"]

    plain = FedSage(**{name: value for name, value in SMALL.items() if name in FedSage.model_fields})
    without = train(plain, make_federation(plain, graphs), 2)["weights"]
    none, random, generated = weights(mending="none"), weights(mending="random"), weights()
    assert all(torch.equal(none[name], without[name]) for name in without)
    names = [name for name in without if "neighbor" in name]
    assert not any(torch.allclose(generated[name], random[name], atol=1e-4) for name in names)
    alone, judged = (weights(alpha=alpha, generator_lr=0.1) for alpha in (0.0, 1.0))
    assert not any(torch.allclose(alone[name], judged[name], atol=1e-5) for name in names)


def test_random_nodes_replace_as_many_generated_ones(graphs, make_federation, train):
    def generated(mending):
        algorithm = FedSagePlus(**SMALL, mending=mending)
        fed = make_federation(algorithm, graphs)
        train(algorithm, fed, 3)
        return [state["generated"] for state in fed._runner.states().values()]

    for graph, real, random in zip(graphs, generated("generated"), generated("random"), strict=True):
        assert torch.equal(real["owner"], random["owner"])
        own = {tuple(row) for row in graph.x.tolist()}
        assert {tuple(row) for row in random["features"].tolist()} <= own
        assert not {tuple(row) for row in real["features"].tolist()} & own


def test_pretraining_brings_the_losses_down(graphs, make_federation):
    def losses(steps):
        algorithm = FedSagePlus(**SMALL | {"pretrain_steps": steps, "generator_lr": 0.01, "generator_batch": 0})
        fed = make_federation(algorithm, graphs)
        algorithm.setup(fed)
        scores = fed.call(algorithm.evaluate_generator).tree
        return [float(scores[name][:, 0].sum() / scores[name][:, 1].sum()) for name in scores][:2]

    (count, feature), (later_count, later_feature) = losses(0), losses(60)
    assert later_count < 0.8 * count
    assert later_feature < 0.8 * feature


@pytest.mark.parametrize("targets", ["true-min", "last"])
@pytest.mark.parametrize("kind", [FedSagePlus, LocSagePlus])
def test_odd_clients_and_absent_ones_finish(make_federation, train, targets, kind):
    odd = [
        random_graph(20, 40, 0),
        random_graph(9, 0, 1),  # only isolated nodes, and so without hidden neighbours
        random_graph(1, 0, 2),
        random_graph(12, 20, 3, role=0),  # nothing to train on
        random_graph(2, 3, 4),
    ]
    fields = {name: value for name, value in SMALL.items() if name in kind.model_fields}
    algorithm = kind(**fields, targets=targets)
    for fraction in (1.0, 0.6, 0.2):
        fed = make_federation(algorithm, odd, fraction=fraction)
        train(algorithm, fed, 4)
        scores = fed.call(algorithm.evaluate).tree
        assert torch.isfinite(scores["train_loss"]).all()
        assert fed._runner.states().keys() == set(range(5))


def test_an_absent_client_neither_shares_nor_judges(graphs, make_federation, train):
    algorithm = FedSagePlus(**SMALL)
    fed = make_federation(algorithm, graphs, fraction=0.67, seed=1)
    train(algorithm, fed, 1)
    present = {row["sender"] for row in rows_of(fed, "share")} - {-1}
    assert len(present) == 2
    assert {row["sender"] for row in rows_of(fed, "judge")} - {-1} == present
    assert len([row for row in rows_of(fed, "judge") if row["sender"] >= 0]) == 2


def test_a_shared_generator_is_averaged_instead(graphs, make_federation, train):
    algorithm = FedSagePlus(**SMALL, generator="shared")
    fed = make_federation(algorithm, graphs)
    server = train(algorithm, fed, 2)
    assert not rows_of(fed, "judge")
    replies = fed.call(algorithm.train_generator, server["neighgen"])
    fed.begin(round=3, kind="train")
    server = algorithm.round(fed, server)
    assert "neighgen" not in server
    assert len(replies) == 3
    states = fed._runner.states()
    assert all("neighgen" not in state and len(state["generated"]["owner"]) for state in states.values())


def test_the_own_model_is_judged_on_the_mended_graph_and_the_servers_on_the_graph_as_it_is(
    graphs, make_federation, train
):
    algorithm = FedSagePlus(**SMALL)
    fed = make_federation(algorithm, graphs)
    server = train(algorithm, fed, 3)
    plain = FedSage(hidden=4, sizes=(3, 2))
    other = make_federation(plain, graphs)
    plain.setup(other)
    expected = other.call(plain.evaluate, server["weights"]).tree["train_loss"]
    torch.testing.assert_close(fed.call(algorithm.evaluate, server["weights"]).tree["train_loss"], expected)
    own = fed.call(algorithm.evaluate).tree["train_loss"]
    weights = fed._runner.states()[0]["weights"]
    on_plain = other.call(plain.evaluate, weights).tree["train_loss"]
    assert not torch.isclose(own[0], on_plain[0]).all()


def test_sampled_features_are_sparse_or_dense_alike(graphs, make_federation, train):
    from scipy import sparse

    algorithm = FedSagePlus(**SMALL, noise=0.0)
    sparser = [replace(graph, x=sparse.csr_array(graph.x)) for graph in graphs]
    dense, other = (train(algorithm, make_federation(algorithm, some), 4)["weights"] for some in (graphs, sparser))
    for name in dense:
        torch.testing.assert_close(dense[name], other[name], rtol=1e-4, atol=1e-4)
