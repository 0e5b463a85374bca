import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraph_sim.algorithms.nn.propagation import diagonal, personalized_propagation, propagate, rows


def links(num_nodes, pairs):
    matrix = np.zeros((num_nodes, num_nodes))
    for one, other in pairs:
        matrix[one, other] = matrix[other, one] = 1
    return sparse.csr_array(matrix)


GRAPHS = [
    links(6, [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5)]),
    links(4, []),
    links(60, [(node, node + 1) for node in range(0, 60, 2)]),  # pairs: stays sparse
    links(1, []),
]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("steps", [0, 1, 10])
def test_it_is_what_the_steps_make_of_the_inputs(graph, steps):
    looped = graph.toarray() + np.eye(graph.shape[0])
    scale = looped.sum(axis=1) ** -0.5
    s = torch.from_numpy(scale[:, None] * looped * scale).float()
    h = torch.randn(graph.shape[0], 3, generator=torch.Generator().manual_seed(0))
    z = h
    for _ in range(steps):
        z = 0.9 * s @ z + 0.1 * h
    matrix = personalized_propagation(graph, teleport=0.1, steps=steps)
    torch.testing.assert_close(propagate(matrix, h), z)
    whole = propagate(matrix, torch.eye(graph.shape[0]))
    torch.testing.assert_close(diagonal(matrix), whole.diagonal())
    chosen = [graph.shape[0] - 1, 0]
    expected = (whole - torch.diag(whole.diagonal()))[chosen]
    torch.testing.assert_close(rows(matrix, chosen), expected)


def test_it_is_sparse_where_that_pays():
    assert "dense" in personalized_propagation(GRAPHS[0], teleport=0.1, steps=10)
    assert "dense" not in personalized_propagation(GRAPHS[2], teleport=0.1, steps=10)


def test_the_rows_of_a_regular_graph_sum_to_one():
    """On a regular graph S is stochastic, and so is A~."""
    ring = links(5, [(node, (node + 1) % 5) for node in range(5)])
    matrix = personalized_propagation(ring, teleport=0.1, steps=10)
    torch.testing.assert_close(propagate(matrix, torch.ones(5, 1)), torch.ones(5, 1))
