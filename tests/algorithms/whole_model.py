"""CNFGNN's model in one computation, which its two halves are compared with."""

import numpy as np
import torch

from fedgraph_sim.algorithms.nn.graph_network import Links
from fedgraph_sim.algorithms.nn.seq2seq import sequences
from fedgraph_sim.engine.series_tensors import SeriesTensors

CPU = torch.device("cpu")


def whole_loss(algorithm, own, network, series, starts, scale):
    """Return every sensor's loss, all of the model in one computation; `own` are the weights of each sensor."""
    tensors = [SeriesTensors.of(series.part(np.array([at])), CPU) for at in range(series.num_nodes)]
    rows = [sequences(each, starts, scale) for each in tensors]
    encodings = torch.stack(
        [algorithm.network.encode(weights, each.inputs)[0] for weights, each in zip(own, rows, strict=True)]
    )
    embeddings = algorithm.graph_network(network, encodings, Links.of(series.adjacency))
    return torch.stack(
        [
            algorithm.loss(algorithm.decode(weights, h, g, each), each)
            for weights, h, g, each in zip(own, encodings, embeddings, rows, strict=True)
        ]
    )


def leaves_of(weights):
    return {name: leaf.clone().requires_grad_() for name, leaf in weights.items()}
