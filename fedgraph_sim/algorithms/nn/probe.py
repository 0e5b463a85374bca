"""A model's functional embedding: its mean answer to a random graph that is the same for all models.

``embedding = mean over the nodes of conv2(relu(conv1(X)))``, a layer being ``sum_p M_p H W_p + b`` (see
`Model.propagation`). The mean goes through the second layer, ``sum_p (m_p H) W_p + b`` with ``m_p = 1^T M_p / n``, and
the products M_p X of the first are the same for every model. So these are sent, instead of features and edges, and one
matrix product per model is nearly all that is left.
"""

import numpy as np
import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import Model, Weights
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.engine.tree import Tree


def block_model(*, num_blocks: int, block_size: int, p_in: float, p_out: float, num_features: int, seed: int) -> Graph:
    """Draw an undirected stochastic block model whose features are N(0, 1).

    Two nodes are joined with probability `p_in` inside a block, else `p_out`. One block is an Erdos-Renyi graph.
    """
    rng = np.random.default_rng(seed)
    num_nodes = num_blocks * block_size
    block = np.repeat(np.arange(num_blocks), block_size)
    probability = np.where(block[:, None] == block, p_in, p_out)
    ends = np.stack(np.nonzero(np.triu(rng.random((num_nodes, num_nodes)) < probability, k=1)))
    return Graph(
        x=rng.standard_normal((num_nodes, num_features), dtype=np.float32),
        edge_index=np.concatenate([ends, ends[::-1]], axis=1),
        edge_weight=None,
        y=np.full(num_nodes, -1),
        role=np.zeros(num_nodes, np.int8),
        node_id=np.arange(num_nodes),
        num_classes=1,
    )


def probe(model: Model, graph: Graph) -> Tree:
    """Return what `embedding` needs of a dense `graph`: ``inputs`` M_p X [n, num_features] and ``means`` m_p [n]."""
    matrices = model.propagation(graph)
    inputs = {part: matrix @ graph.x for part, matrix in matrices.items()}
    means = {part: matrix.mean(axis=0) for part, matrix in matrices.items()}
    return {
        "inputs": {part: torch.from_numpy(array.astype(np.float32)) for part, array in inputs.items()},
        "means": {part: torch.from_numpy(array.astype(np.float32)) for part, array in means.items()},
    }


def embedding(weights: Weights, probe: Tree) -> Tensor:
    """Return the mean over all nodes of the second layer's output before its ReLU, [hidden], without dropout."""
    h = torch.relu(_layer("conv1", weights, probe["inputs"]))
    return _layer("conv2", weights, {part: mean @ h for part, mean in probe["means"].items()})


def _layer(name: str, weights: Weights, inputs: dict[str, Tensor]) -> Tensor:
    output = weights[f"{name}.bias"]
    for part, h in inputs.items():
        output = output + h @ weights[f"{name}.{part}"]
    return output
