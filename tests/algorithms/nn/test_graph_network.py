import numpy as np
import torch
from scipy import sparse
from torch import nn

from fedgraph_sim.algorithms.nn.graph_network import GraphNetwork, Links


def mlp(weights, name):
    """Return three torch layers with the weights of one f."""
    layers = []
    for number in range(3):
        layer = nn.Linear(*weights[f"{name}.{number}.weight"].shape)
        layer.weight.data = weights[f"{name}.{number}.weight"].T
        layer.bias.data = weights[f"{name}.{number}.bias"]
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def reference(network, weights, encodings, adjacency):
    """Return the embeddings by the definition, link by link, for one window [N, size]."""
    weight = adjacency + np.diag(1 - np.diag(adjacency))  # each node reaches itself
    links = [(t, s, float(weight[t, s])) for t, s in zip(*np.nonzero(weight), strict=True)]
    edges = [torch.tensor([weight]) for _, _, weight in links]
    nodes, whole = list(encodings), torch.zeros(network.size)
    for block in range(network.blocks):
        f = {part: mlp(weights, f"{block}.{part}") for part in ("edge", "node", "global")}
        new_edges = [
            f["edge"](torch.cat([edge, nodes[source], nodes[target], whole]))
            for edge, (target, source, _) in zip(edges, links, strict=True)
        ]
        new_nodes = []
        for node, value in enumerate(nodes):
            arriving = sum(
                (edge for edge, (target, _, _) in zip(new_edges, links, strict=True) if target == node),
                start=torch.zeros(network.out),
            )
            new_nodes.append(f["node"](torch.cat([arriving, value, whole])))
        new_whole = f["global"](torch.cat([sum(new_nodes), sum(new_edges, start=torch.zeros(network.out)), whole]))
        edges = [torch.cat(pair) for pair in zip(new_edges, edges, strict=True)]
        nodes = [torch.cat(pair) for pair in zip(new_nodes, nodes, strict=True)]
        whole = torch.cat([new_whole, whole])
    return torch.stack(nodes) @ weights["head.weight"] + weights["head.bias"]


def test_it_is_the_definition_link_by_link():
    network = GraphNetwork(size=3, width=5, out=4)
    generator = torch.Generator().manual_seed(0)
    weights = network.init(generator)
    adjacency = np.array([[1, 0.5, 0, 0], [0, 0, 2, 0], [0.1, 0.2, 0, 0], [0, 0, 0, 0]])  # nothing reaches the last
    encodings = torch.randn(4, 2, 3, generator=generator)
    embeddings = network(weights, encodings, Links.of(sparse.csr_array(adjacency)))
    for window in range(2):
        expected = reference(network, weights, encodings[:, window], adjacency)
        torch.testing.assert_close(embeddings[:, window], expected)


def test_without_any_link_every_node_gets_an_embedding():
    network = GraphNetwork(size=3, width=5, out=4)
    weights = network.init(torch.Generator().manual_seed(0))
    embeddings = network(weights, torch.ones(4, 2, 3), Links.of(sparse.csr_array((4, 4))))
    assert embeddings.shape == (4, 2, 3)
    assert torch.isfinite(embeddings).all()


def test_the_published_number_of_parameters():
    weights = GraphNetwork().init(torch.Generator())
    assert sum(leaf.numel() for leaf in weights.values()) == 1_237_312
    assert weights["0.edge.0.weight"].shape == (193, 256)
    assert weights["1.edge.0.weight"].shape == (705, 256)
    assert weights["1.node.0.weight"].shape == (512, 256)
    assert weights["1.global.0.weight"].shape == (448, 256)
