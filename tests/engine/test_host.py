import pytest
import torch
from steps import OnlySteps

from fedgraph_sim.engine.algorithm import client_step
from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.replies import Here


class Steps(OnlySteps):
    @client_step
    def edit(self, client, message):
        message["w"].add_(1)
        return {}

    @client_step(batched=True)
    def edit_together(self, client, message):
        message["w"].add_(1)
        return {"w": message["w"] * client.graph.y.sum()}

    @client_step
    def fail(self, client, message):
        if len(client.graph.y) == 3:
            raise KeyError("gone")
        return {}

    @client_step
    def diverge(self, client, message):
        value = float("nan") if len(client.graph.y) == 3 else 1.0
        return {"loss": torch.tensor([1.0, value]), "count": torch.tensor(5)}

    @client_step
    def labels(self, client, message):
        return {"y": client.graph.y, "count": client.graph.train_mask.sum()}

    @client_step
    def count(self, client, message):
        client.state = {"calls": client.state.get("calls", torch.tensor(0)) + 1}
        return {"calls": client.state["calls"]}

    @client_step(batched=True)
    def count_inside(self, client, message):
        if "inner" not in client.state:
            client.state["inner"] = {"calls": client.graph.y.new_zeros(())}
        client.state["inner"]["calls"] = client.state["inner"]["calls"] + 1
        return {"calls": client.state["inner"]["calls"]}

    @client_step(batched=True)
    def look(self, client, message):
        return {"calls": client.state["inner"]["calls"] + 0}

    @client_step
    def nothing(self, client, message):
        return None


@pytest.fixture
def host(path_graphs, make_host):
    return make_host(Steps(), path_graphs)


def call(step, *, clients=(0, 1), **messages):
    return Call(step=step, round=1, seed=0, clients=clients, **messages)


def test_a_step_that_edits_its_message_is_refused(host):
    message = {"w": torch.zeros(2)}
    failure = host.run(call("edit", shared=message))
    assert isinstance(failure, StepFailure)
    assert (failure.who, failure.step) == ("client 0", "edit")
    assert "in place" in failure.reason


@pytest.mark.parametrize("messages", [{"shared": {"w": torch.zeros(2)}}, {"each": {"w": torch.zeros(2, 2)}}])
def test_a_batched_step_that_edits_its_message_is_refused(path_graphs, make_host, messages):
    failure = make_host(Steps(), path_graphs[:1] * 2, batched=True).run(call("edit_together", **messages))
    assert (failure.who, failure.step) == ("clients 0, 1", "edit_together")
    assert "in place" in failure.reason


def test_a_step_that_raises_is_named_with_its_traceback(host):
    failure = host.run(call("fail"))
    assert (failure.who, failure.step, failure.reason) == ("client 1", "fail", "KeyError: 'gone'")
    assert 'raise KeyError("gone")' in failure.traceback


def test_a_reply_that_is_not_finite_is_named(host):
    diverge = call("diverge")
    replies = Here(host.run(diverge), diverge, seconds=0.0)
    failure = replies.tree()
    assert (failure.who, failure.step) == ("client 1", "diverge")
    assert "loss of the reply holds NaN or Inf" in failure.reason
    assert replies.weighted_sum("loss", torch.tensor([0.5, 0.5]))() == failure
    assert replies.weighted_sum("loss", torch.tensor([1.0, 0.0]))() == failure  # 0 * NaN is NaN, too


def test_replies_of_different_shapes_become_lists(host):
    replies = host.run(call("labels"))
    assert [part.tolist() for part in replies["y"]] == [[0, 1, 0, 1], [0, 1, 0]]
    assert replies["count"].tolist() == [2, 1]


def test_replies_follow_the_order_asked(host):
    assert host.run(call("labels", clients=(1, 0)))["count"].tolist() == [1, 2]


def test_each_client_keeps_its_own_state_from_call_to_call(host):
    host.run(call("count"))
    assert host.run(call("count", clients=(1,)))["calls"].tolist() == [2]
    assert {client: int(state["calls"]) for client, state in host.states().items()} == {0: 1, 1: 2}


def test_a_step_may_reply_nothing(host):
    assert host.run(call("nothing")) is None


@pytest.mark.parametrize("batched", [False, True])
def test_a_state_may_be_changed_in_place_or_left_alone(path_graphs, make_host, batched):
    host = make_host(Steps(), [path_graphs[0]] * 3, batched=batched)
    for number in range(1, 5):  # from the third time on a batched step is replayed
        clients = (0, 1, 2) if number % 2 else (0, 2)
        assert host.run(call("count_inside", clients=(0, 1, 2)))["calls"].tolist() == [number] * 3
        assert host.run(call("look", clients=clients))["calls"].tolist() == [number] * len(clients)
    kept = host._groups[0].states.some((0, 1, 2))["inner"]["calls"]
    host.run(call("look", clients=(0, 1, 2)))
    assert host._groups[0].states.some((0, 1, 2))["inner"]["calls"] is kept or not batched
