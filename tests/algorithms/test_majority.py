import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.majority import Majority


@pytest.mark.parametrize("batched", [False, True])
def test_the_most_frequent_training_label_is_predicted(make_graph, make_federation, train, batched):
    graphs = [
        make_graph(6, [], y=np.array([1, 1, 0, 1, 0, 1]), role=np.array([1, 1, 1, 3, 3, 2], np.int8)),
        make_graph(4, [], y=np.array([0, 1, 0, 1]), role=np.array([1, 1, 3, 3], np.int8)),  # a draw
        make_graph(2, [], y=np.array([1, 0]), role=np.array([3, 3], np.int8)),  # nothing to count
    ]
    fed = make_federation(Majority(), graphs, batched=batched)
    train(Majority(), fed, 2)
    scores = fed.call(Majority().evaluate).tree
    assert scores["test_accuracy"].tolist() == [[1, 2], [1, 2], [1, 2]]
    assert scores["val_accuracy"].tolist() == [[1, 1], [0, 0], [0, 0]]
    assert float(scores["test_loss"][0, 0]) == pytest.approx(-np.log(3 / 5) - np.log(2 / 5))
    assert torch.isfinite(scores["test_loss"]).all()
