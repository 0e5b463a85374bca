import numpy as np
import pytest
import torch
from steps import OnlySteps

from fedgraph_sim.engine.algorithm import client_step
from fedgraph_sim.engine.federation import sample
from fedgraph_sim.engine.ledger import SERVER
from fedgraph_sim.errors import RunError


class Adder(OnlySteps):
    @client_step
    def add(self, client, message):
        return {"sum": message["value"] + len(client.graph.y)}

    @client_step
    def reply(self, client, message):
        return message

    @client_step
    def number(self, client, message):
        return {"bits": client.random.bits(2)}

    @client_step
    def add_published(self, client, message):
        return {"sum": client.public["value"] + len(client.graph.y)}

    @client_step(batched=True)
    def add_published_together(self, client, message):
        return {"sum": client.public["value"] + client.graph.train_mask.sum()}

    @client_step
    def fail(self, client, message):
        raise ZeroDivisionError("no luck")

    def unmarked(self, client, message):
        return {}


@pytest.fixture
def adder():
    return Adder()


@pytest.fixture
def fed(adder, path_graphs, make_federation):
    return make_federation(adder, path_graphs)


def test_call_sends_one_message_to_all(adder, fed):
    replies = fed.call(adder.add, {"value": torch.tensor([10.0, 20.0])})
    assert replies.clients == (0, 1)
    assert replies.tree["sum"].tolist() == [[14, 24], [13, 23]]


def test_call_asks_only_some_clients_in_the_order_given(adder, fed):
    replies = fed.call(adder.add, {"value": torch.tensor(0.0)}, clients=(1, 0))
    assert replies.clients == (1, 0)
    assert replies.tree["sum"].tolist() == [3, 4]


def test_call_each_sends_each_client_its_own_message(adder, fed):
    replies = fed.call_each(adder.add, {"value": torch.tensor([[10.0], [20.0]])}, clients=(1, 0))
    assert replies[1]["sum"].tolist() == [13]
    assert replies[0]["sum"].tolist() == [24]


def test_call_each_takes_messages_of_different_shapes(adder, fed):
    replies = fed.call_each(adder.add, {"value": [torch.zeros(2), torch.zeros(3)]})
    assert [part.tolist() for part in replies.tree["sum"]] == [[4, 4], [3, 3, 3]]


def test_call_each_refuses_the_wrong_number_of_messages(adder, fed):
    with pytest.raises(AssertionError, match="value has 3 parts for 2 clients"):
        fed.call_each(adder.add, {"value": torch.zeros(3)})


def test_only_tensors_travel(adder, fed):
    with pytest.raises(TypeError, match="value in a message is a float"):
        fed.call(adder.add, {"value": 1.0})


def test_a_failure_names_client_round_and_step(adder, fed):
    fed.begin(round=7, kind="train")
    with pytest.raises(RunError, match=r"client 1, round 7, step fail: ZeroDivisionError: no luck") as caught:
        fed.call(adder.fail, clients=(1,))
    assert "in fail" in caught.value.details


def test_a_call_enters_one_row_per_message(adder, fed):
    fed.begin(round=3, kind="train")
    fed.call(adder.add, {"value": torch.zeros(5)}, clients=(1,))
    fed.call_each(adder.add, {"value": [torch.zeros(2), torch.zeros(3)]})
    assert fed.ledger.table().num_rows == 0  # calls are promises
    fed.settle()
    rows = fed.ledger.table().to_pylist()
    assert [(row["call"], row["sender"], row["receiver"], row["bytes"]) for row in rows] == [
        (0, SERVER, 1, 20),
        (0, 1, SERVER, 20),
        (1, SERVER, 0, 8),
        (1, SERVER, 1, 12),
        (1, 0, SERVER, 8),
        (1, 1, SERVER, 12),
    ]
    assert {(row["round"], row["step"], row["kind"]) for row in rows} == {(3, "add", "train")}


@pytest.mark.parametrize("batched", [False, True])
def test_what_is_published_is_there_in_every_step_from_then_on(adder, path_graphs, make_federation, batched):
    fed = make_federation(adder, path_graphs, batched=batched)
    fed.publish({"value": torch.tensor([10.0, 20.0])})
    assert fed.call(adder.add_published).tree["sum"].tolist() == [[14, 24], [13, 23]]
    assert fed.call(adder.add_published_together).tree["sum"].tolist() == [[12, 22], [11, 21]]
    fed.publish({"value": torch.tensor([0.0])})
    assert fed.call(adder.add_published, clients=(1,)).tree["sum"].tolist() == [[3]]


def test_what_is_published_is_sent_to_every_client_once(adder, fed):
    fed.publish({"value": torch.zeros(3), "more": {"count": torch.tensor(1)}})
    fed.call(adder.add_published)
    fed.settle()
    rows = fed.ledger.table().to_pylist()
    columns = ("call", "step", "kind", "sender", "receiver", "bytes")
    assert [tuple(row[name] for name in columns) for row in rows if row["step"] == "publish"] == [
        (0, "publish", "setup", SERVER, 0, 20),
        (0, "publish", "setup", SERVER, 1, 20),
    ]
    assert {row["call"] for row in rows if row["step"] == "add_published"} == {1}
    with pytest.raises(TypeError, match="publish: value in a message is a float"):
        fed.publish({"value": 1.0})


def test_a_sparse_call_is_counted_sparse_both_ways(adder, fed):
    message = torch.zeros(2, 100)
    message[0, :10] = 1.0
    fed.call_each(adder.add, {"value": message}, sparse=True)
    fed.call(adder.add, {"value": message[0] - 4}, sparse=True)
    fed.settle()
    rows = fed.ledger.table().to_pylist()
    # The replies are sums with the number of nodes, 4 and 3: all their entries are non-zero but 90 of client 0's last.
    assert [row["bytes"] for row in rows] == [80, 0, 400, 400, 400, 400, 80, 400]


def test_recorded_matrices_are_taken_once(fed):
    fed.begin(round=4, kind="train")
    fed.record("likeness", torch.zeros(2, 2), clients=(0, 1))
    fed.record("likeness", torch.tensor([[1.0, 0.5], [0.25, 1.0]], dtype=torch.float64), clients=(3, 7))
    (matrix,) = fed.take_matrices()
    assert (matrix.name, matrix.round, matrix.clients) == ("likeness", 4, (3, 7))
    assert matrix.values.tolist() == [[1, 0.5], [0.25, 1]]
    assert fed.take_matrices() == []


def test_random_streams_differ_by_client_call_round_and_seed_only(adder, path_graphs, make_federation):
    def bits(*, seed=0, round=1, calls=1, clients=(0, 1)):
        fed = make_federation(adder, path_graphs, seed=seed)
        fed.begin(round=round, kind="train")
        for _ in range(calls):
            replies = fed.call(adder.number, clients=clients)
        return {client: tuple(replies[client]["bits"].tolist()) for client in clients}

    assert bits() == bits()
    assert bits(clients=(1,))[1] == bits()[1]
    assert len({bits()[0], bits()[1], bits(calls=2)[0], bits(round=2)[0], bits(seed=1)[0]}) == 5


@pytest.mark.parametrize(
    ("num_clients", "fraction", "count"), [(100, 0.1, 10), (3, 0.01, 1), (3, 0.5, 2), (5, 0.5, 3), (10, 1.0, 10)]
)
def test_sample_is_a_sorted_fraction_of_at_least_one(num_clients, fraction, count):
    chosen = sample(num_clients, fraction=fraction, seed=0, round=1)
    assert len(set(chosen)) == count
    assert list(chosen) == sorted(chosen)
    assert set(chosen) <= set(range(num_clients))


def test_sample_depends_on_seed_and_round_only():
    def chosen(seed, round):
        return sample(100, fraction=0.1, seed=seed, round=round)

    assert chosen(0, 1) == chosen(0, 1)
    assert len({chosen(0, 1), chosen(0, 2), chosen(1, 1)}) == 3


def test_sample_is_uniform():
    counts = np.bincount([client for round in range(2000) for client in sample(10, fraction=0.3, seed=0, round=round)])
    assert abs(counts - 600).max() < 5 * (2000 * 0.3 * 0.7) ** 0.5


def test_an_unmarked_method_is_no_step(adder, fed):
    with pytest.raises(TypeError, match="unmarked is not a client step; mark it with @client_step"):
        fed.call(adder.unmarked)


@pytest.mark.parametrize("apart", [False, True])
def test_rows_go_to_all_others_and_their_replies_are_added_up(adder, path_graphs, make_federation, apart):
    graphs = [*path_graphs, path_graphs[1]]  # of 4, 3 and 3 nodes
    fed = make_federation(adder, graphs, batched=apart)
    rows = fed.call_each(adder.reply, {"value": torch.tensor([[1.0], [10.0], [100.0]])}).keep()
    sums = fed.call_others(adder.add, rows)
    assert sums.clients == (0, 1, 2)
    replies = fed.call_each(adder.reply, sums.map(as_value, sums))
    assert replies.tree["value"].tolist() == [[2 + 3 + 3], [20 + 4 + 3], [200 + 4 + 3]]
    fed.settle()
    down, up = (
        [row for row in fed.ledger.table().to_pylist() if row["step"] == "add" and row[end] == SERVER]
        for end in ("sender", "receiver")
    )
    assert [row["receiver"] for row in down] == [row["sender"] for row in up] == [1, 2, 0, 2, 0, 1]
    assert [row["bytes"] for row in down] == [row["bytes"] for row in up] == [4] * 6


def as_value(rows, _):
    return {"value": rows["sum"]}


def test_a_step_that_fails_for_anothers_row_ends_the_run(adder, fed):
    rows = fed.call_each(adder.reply, {"value": torch.ones(2, 1)}).keep()
    with pytest.raises(RunError, match="client 1, round 0, step fail: ZeroDivisionError: no luck"):
        fed.call_others(adder.fail, rows)


def test_alone_there_are_no_others(adder, path_graphs, make_federation):
    fed = make_federation(adder, path_graphs[:1])
    rows = fed.call_each(adder.reply, {"value": torch.ones(1, 1)}).keep()
    with pytest.raises(AssertionError, match="no other client"):
        fed.call_others(adder.add, rows)
