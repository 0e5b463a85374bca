import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.nn.models import MODELS
from fedgraph_sim.algorithms.nn.probe import block_model, embedding, probe
from fedgraph_sim.engine.graph_tensors import GraphTensors


def edges_by_block(graph, block_size):
    first, second = graph.edge_index // block_size
    return int((first == second).sum()), int((first != second).sum())


def test_block_model_has_the_given_edges_and_normal_features():
    graph = block_model(num_blocks=4, block_size=50, p_in=0.2, p_out=0.01, num_features=20, seed=0)
    assert graph.x.shape == (200, 20)
    assert graph.x.dtype == np.float32
    assert abs(graph.x.mean()) < 0.05
    assert abs(graph.x.std() - 1) < 0.05
    pairs = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    assert len(pairs) == graph.num_edges  # no edge twice
    assert all((j, i) in pairs and i != j for i, j in pairs)
    inside, between = edges_by_block(graph, 50)
    num_inside, num_between = 4 * 50 * 49, 4 * 3 * 50 * 50
    for count, trials, p in ((inside, num_inside, 0.2), (between, num_between, 0.01)):
        assert abs(count - trials * p) < 5 * (2 * trials * p) ** 0.5  # entries come in twos


def test_blocks_without_edges_between_them():
    graph = block_model(num_blocks=5, block_size=20, p_in=0.5, p_out=0.0, num_features=1, seed=0)
    inside, between = edges_by_block(graph, 20)
    assert inside > 0
    assert between == 0


def test_a_seed_is_one_graph():
    def draw(seed):
        return block_model(num_blocks=2, block_size=10, p_in=0.3, p_out=0.1, num_features=3, seed=seed)

    assert np.array_equal(draw(0).x, draw(0).x)
    assert np.array_equal(draw(0).edge_index, draw(0).edge_index)
    assert not np.array_equal(draw(0).x, draw(1).x)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(3, 20), (1, 40), (1, 1)], ids=["blocks", "erdos-renyi", "one-node"])
def test_embedding_is_the_mean_of_the_second_layer_over_the_nodes(name, shape):
    num_blocks, block_size = shape
    graph = block_model(num_blocks=num_blocks, block_size=block_size, p_in=0.2, p_out=0.05, num_features=6, seed=1)
    model = MODELS[name](hidden=5)
    weights = model.init(6, 2, torch.Generator().manual_seed(0))
    weights |= {key: leaf + 0.3 for key, leaf in weights.items() if key.endswith("bias")}
    tensors = GraphTensors.of(graph, torch.device("cpu"))
    h = torch.relu(model.layer("conv1", weights, tensors, tensors.x))
    expected = model.layer("conv2", weights, tensors, h).mean(dim=0)
    torch.testing.assert_close(embedding(weights, probe(model, graph)), expected)
