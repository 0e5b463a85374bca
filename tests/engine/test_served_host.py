import pytest
import torch
from steps import OnlySteps

from fedgraph_sim.engine.algorithm import client_step
from fedgraph_sim.engine.arrays import to_arrays
from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.served_host import Own, ServedHost, Shown
from fedgraph_sim.engine.spread import added, added_rows


class Steps(OnlySteps):
    @client_step
    def labels(self, client, message):
        return {"y": client.graph.y[:2]}


@pytest.fixture
def served(path_graphs, make_host):
    host = ServedHost(make_host(Steps(), path_graphs))
    host.run(0, Call(step="labels", round=4, seed=0, clients=(0, 1)), None, ())
    host.keep(1, None, 0)
    return host


def broken(_tree):
    raise ValueError("no such row")


def test_what_is_held_is_computed_upon(served):
    served.compute(2, added_rows, Own(1), added)
    assert served.show(2).tree()["y"].tolist() == [0, 2]


ATTEMPTS = {
    "broken": lambda host: host.compute(2, broken, Own(1)),
    "keep": lambda host: host.keep(2, "weights", 0),
    "spread": lambda host: host.expand(2, to_arrays({"w": torch.ones(2)}), -3),
}


@pytest.mark.parametrize("step", ATTEMPTS)
def test_what_cannot_be_computed_is_held_as_its_cause(served, step):
    ATTEMPTS[step](served)
    failure = served.show(2).tree()
    assert isinstance(failure, StepFailure)
    assert (failure.who, failure.round, failure.step) == ("the rows of the clients", 4, step)
    assert "Error: " in failure.reason
    assert "Traceback" in failure.traceback
    served.compute(3, added_rows, Own(2), added)
    assert served.show(3) == Shown(failure)
