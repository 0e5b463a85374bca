import numpy as np
import torch

from fedgraph_sim.engine.arrays import to_arrays, to_tensors


def test_a_tree_survives_the_way_there_and_back():
    tree = {
        "stacked": torch.arange(6.0).reshape(2, 3),
        "ragged": [torch.arange(2), torch.arange(0)],
        "inner": {"flag": torch.tensor([True, False]), "nothing": None},
        "scalar": torch.tensor(3, dtype=torch.int64),
    }
    back = to_tensors(to_arrays(tree))
    assert torch.equal(back["stacked"], tree["stacked"])
    assert [part.tolist() for part in back["ragged"]] == [[0, 1], []]
    assert torch.equal(back["inner"]["flag"], tree["inner"]["flag"])
    assert back["inner"]["nothing"] is None
    assert back["scalar"].dtype == torch.int64
    assert back["scalar"].item() == 3


def test_nothing_is_copied():
    tensor = torch.zeros(2)
    arrays = to_arrays({"w": tensor})
    assert isinstance(arrays["w"], np.ndarray)
    tensor += 1
    assert to_tensors(arrays)["w"].tolist() == [1, 1]


def test_gradients_stay_behind():
    assert to_arrays({"w": torch.ones(1, requires_grad=True)})["w"].tolist() == [1]
