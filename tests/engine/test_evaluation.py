import numpy as np
import pytest
import torch
from steps import OnlySteps

from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.store import PartitionStore
from fedgraph_sim.engine.algorithm import client_step
from fedgraph_sim.engine.evaluation import Evaluator, ratio

TEST = 3


class Linked(OnlySteps):
    """Counts a test node as right when it has a neighbour."""

    def global_model(self, server):
        return {"unused": torch.zeros(1)}

    @client_step
    def evaluate(self, client, message):
        graph = client.graph
        linked = (graph.mean_adjacency @ torch.ones(len(graph.y), 1))[:, 0] > 0
        return {"test_accuracy": torch.stack([(linked & graph.test_mask).sum(), graph.test_mask.sum()]).float()}


class Pooled(Linked):
    pooled = True


def roles(*values):
    return np.array(values, np.int8)


def evaluate(protocol, graphs, make_federation, algorithm=None, store=None, link_split=None):
    algorithm = algorithm or Linked()
    fed = make_federation(algorithm, graphs)
    fed.begin(round=1, kind="eval")
    evaluator = Evaluator(algorithm, protocol, store, link_split)
    evaluation = evaluator.finish(evaluator.begin(fed, {}))
    fed.settle()
    return evaluation, fed


@pytest.fixture
def graphs(make_graph):
    """Client 0: 3 of 4 test nodes are right; client 1: 1 of 1; client 2 has no test node."""
    return [
        make_graph(4, [(0, 1), (1, 2)], both_ways=True, role=roles(TEST, TEST, TEST, TEST)),
        make_graph(2, [(0, 1)], both_ways=True, role=roles(TEST, 1)),
        make_graph(2, [(0, 1)], both_ways=True, role=roles(1, 1)),
    ]


@pytest.mark.parametrize(("protocol", "accuracy"), [("local-mean", (0.75 + 1) / 2), ("local-weighted", 4 / 5)])
def test_local_protocols_by_hand(graphs, make_federation, protocol, accuracy):
    evaluation, fed = evaluate(protocol, graphs, make_federation)
    assert evaluation.metrics == {"test_accuracy": pytest.approx(accuracy)}
    assert evaluation.clients == (0, 1, 2)
    assert evaluation.values["test_accuracy"].tolist()[:2] == [0.75, 1]
    assert np.isnan(evaluation.values["test_accuracy"][2])
    assert evaluation.counts["test_accuracy"].tolist() == [4, 1, 0]
    assert fed.ledger.total("up", "eval") == 3 * 8


@pytest.mark.parametrize("protocol", ["local-mean", "local-weighted"])
def test_without_any_test_node_there_is_no_accuracy(graphs, make_federation, protocol):
    evaluation, _ = evaluate(protocol, graphs[2:] * 2, make_federation)
    assert evaluation.metrics == {"test_accuracy": None}


def test_global_judges_on_the_whole_graph_at_the_nodes_that_clients_hold(make_graph, make_federation, tmp_path):
    whole = make_graph(4, [(0, 1)], both_ways=True, role=roles(TEST, TEST, TEST, TEST))
    members = [np.array([0]), np.array([1, 2])]
    store = PartitionStore.create(tmp_path / "store", whole, members, dataset="d", partition="p")
    parts = list(store.load((0, 1)).values())
    evaluation, fed = evaluate("global", parts, make_federation, store=store)
    assert evaluation.metrics == {"test_accuracy": pytest.approx(2 / 3)}  # nodes 0 and 1 of 0, 1, 2; nobody holds 3
    assert evaluation.clients == ()
    assert fed.ledger.table().num_rows == 0
    local, _ = evaluate("local-weighted", parts, make_federation)
    assert local.metrics == {"test_accuracy": 0}  # the one edge is between clients


class LinkCounter(Linked):
    """Reports how many links are held out, and how many of all links its graph shows."""

    @property
    def predicts_links(self):
        return True

    @client_step
    def evaluate(self, client, message):
        graph = client.graph
        held_out = (graph.links.val_mask | graph.links.test_mask).sum()
        visible = (graph.mean_adjacency @ torch.eye(len(graph.y)) > 0).sum() / 2
        return {"test_shown": torch.stack([visible, held_out + visible]).float()}


def test_global_holds_the_same_links_out_of_the_whole_graph_as_clients_of_theirs(make_graph, make_federation, tmp_path):
    entries = np.random.default_rng(0).integers(0, 20, (60, 2))
    entries = entries[entries[:, 0] != entries[:, 1]]
    whole = make_graph(20, entries.tolist(), both_ways=True)
    store = PartitionStore.create(tmp_path / "s", whole, [np.arange(10), np.arange(20)], dataset="d", partition="p")
    parts, split = list(store.load((0, 1)).values()), Split(link_val=0.2, link_test=0.2).links(seed=0)
    evaluation, _ = evaluate("global", parts, make_federation, LinkCounter(), store, split)
    examples = split.apply(whole)
    num_links, num_held_out = len(examples.role), np.count_nonzero(examples.role > 1)
    assert 0 < num_held_out < num_links
    assert evaluation.metrics == {"test_shown": pytest.approx(1 - num_held_out / num_links)}


def test_one_party_with_everything_judges_its_own_model(graphs, make_federation):
    evaluation, _ = evaluate("global", graphs[:1], make_federation, algorithm=Pooled())
    assert evaluation.metrics == {"test_accuracy": 0.75}
    assert evaluation.clients == (0,)


class Lender(Linked):
    """Clients lend how many nodes they have; a node is right where its number is below that."""

    has_global_model = False
    lends_models = True

    @client_step
    def lend(self, client, message):
        return {"number": torch.tensor(len(client.graph.y))}

    @client_step
    def evaluate(self, client, message):
        right = client.graph.node_id < message["number"]
        return {"test_accuracy": torch.stack([right.sum(), torch.tensor(len(right))]).float()}


def test_global_judges_every_lent_model_on_the_whole_graph(make_graph, make_federation, tmp_path):
    whole = make_graph(4, [(0, 1)], both_ways=True, role=roles(TEST, TEST, TEST, TEST))
    store = PartitionStore.create(tmp_path / "s", whole, [np.array([0]), np.arange(1, 4)], dataset="d", partition="p")
    parts = list(store.load((0, 1)).values())
    evaluation, fed = evaluate("global", parts, make_federation, Lender(), store)
    assert evaluation.metrics == {"test_accuracy": (1 / 4 + 3 / 4) / 2}
    assert evaluation.clients == (0, 1)
    assert evaluation.values["test_accuracy"].tolist() == [1 / 4, 3 / 4]
    assert {row["kind"] for row in fed.ledger.table().to_pylist()} == {"eval"}


class Preparing(Linked):
    @property
    def preparation_rounds(self):
        return 1


def test_in_rounds_of_preparation_clients_are_asked_whatever_the_protocol(
    graphs, make_graph, make_federation, tmp_path
):
    whole = make_graph(4, [], role=roles(TEST, TEST, TEST, TEST))
    store = PartitionStore.create(tmp_path / "s", whole, [np.arange(4)], dataset="d", partition="p")
    evaluation, _ = evaluate("global", graphs, make_federation, Preparing(), store)
    assert evaluation.metrics == {"test_accuracy": pytest.approx(4 / 5)}
    assert evaluation.clients == (0, 1, 2)


def test_ratio_of_nothing_is_not_a_number():
    values = ratio(np.array([[1.0, 2.0], [0.0, 0.0]]))
    assert values[0] == 0.5
    assert np.isnan(values[1])
