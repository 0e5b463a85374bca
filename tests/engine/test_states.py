import torch

from fedgraph_sim.engine.states import States


def states():
    """Return the states of three clients, with one row per node of 2, 1 and 3 nodes."""
    own = States(3)
    for position, num_nodes in enumerate((2, 1, 3)):
        rows = torch.arange(1.0, num_nodes + 1)
        own.set_one(position, {"rows": rows, "known": rows > 0, "weight": torch.tensor(float(position))})
    return own


def test_leaves_of_several_lengths_are_filled_up_when_they_are_stacked():
    together = states().some((0, 1, 2))
    assert together["rows"].tolist() == [[1, 2, 0], [1, 0, 0], [1, 2, 3]]
    assert together["known"].tolist() == [[True, True, False], [True, False, False], [True] * 3]
    assert together["weight"].tolist() == [0, 1, 2]
    assert states().some((1, 0))["rows"].tolist() == [[1, 0], [1, 2]]


def test_some_states_are_replaced_and_the_others_stay():
    own = states()
    own.set_some((1, 0), {"rows": torch.tensor([[7.0, 0], [8, 9]])})
    assert [own.one(position)["rows"].tolist() for position in range(3)] == [[8, 9], [7, 0], [1, 2, 3]]
    own.set_some((0, 1, 2), {"rows": torch.eye(3)})
    assert own.some((2, 0))["rows"].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert own.one(1)["rows"].tolist() == [0, 1, 0]
