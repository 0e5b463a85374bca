import math

import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.nn.objectives import OBJECTIVES, LinkPrediction, NodeClassification, link_logits
from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream

CPU = torch.device("cpu")


def graph_with_links(make_graph, num_nodes=20, num_entries=40, seed=0):
    entries = np.random.default_rng(seed).integers(0, num_nodes, (num_entries, 2)).tolist()
    return GraphTensors.of(make_graph(num_nodes, entries, both_ways=True), CPU, LinkSplit(val=0.2, test=0.2, seed=3))


def stream():
    return RandomStream(torch.tensor(9))


def probability(u, v):
    cosine = torch.dot(u, v) / (u.square().sum() + 1e-4).sqrt() / (v.square().sum() + 1e-4).sqrt()
    return 1 / (1 + math.exp(-(cosine.item() - 0.5) / 0.1))


def test_logits_depend_on_the_angle():
    z = torch.tensor([[3.0, 0.0], [0.0, 2.0], [5.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    (logits,) = link_logits(z, torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4]]))
    torch.testing.assert_close(logits, torch.tensor([-5.0, 5.0, -15.0, -5.0]), rtol=1e-3, atol=0)


def test_the_loss_is_the_mean_over_training_links_and_drawn_pairs(make_graph):
    graph = graph_with_links(make_graph)
    z = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    links, drawn = graph.links, graph.links.draw(stream())
    losses = []
    for place in links.train_mask.nonzero().flatten().tolist():
        (u, v), (s, t) = links.linked[:, place], drawn[:, place]
        losses += [-math.log(probability(z[u], z[v])), -math.log(1 - probability(z[s], z[t]))]
    assert len(losses) > 20
    assert LinkPrediction().loss(z, graph, stream()).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_the_gradient_of_the_loss_is_that_of_finite_differences(make_graph):
    graph = graph_with_links(make_graph, num_nodes=6, num_entries=8)
    z = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def loss(z):
        return LinkPrediction().loss(z, graph, stream())

    assert graph.links.train_mask.any()
    assert torch.autograd.gradcheck(loss, (z.requires_grad_(),))


def test_scores_compare_links_with_the_pairs_beside_them(make_graph):
    graph = graph_with_links(make_graph)
    z = torch.randn(20, 6, generator=torch.Generator().manual_seed(2))
    links, scores = graph.links, LinkPrediction().scores(z, graph)
    for name, mask in {"train": links.train_mask, "val": links.val_mask, "test": links.test_mask}.items():
        places = mask.nonzero().flatten().tolist()
        linked = [probability(z[u], z[v]) for u, v in links.linked[:, places].T.tolist()]
        unlinked = [probability(z[u], z[v]) for u, v in links.unlinked[:, places].T.tolist()]
        wins = np.mean([(a > b) + (a == b) / 2 for a in linked for b in unlinked])
        loss = sum(-math.log(a) for a in linked) + sum(-math.log(1 - b) for b in unlinked)
        assert scores[f"{name}_auc"].tolist() == pytest.approx([wins * len(places), len(places)], rel=1e-5)
        assert scores[f"{name}_loss"].tolist() == pytest.approx([loss, 2 * len(places)], rel=1e-4)


@pytest.mark.parametrize(("num_nodes", "entries"), [(1, []), (4, []), (2, [(0, 1)])])
def test_without_examples_there_is_no_loss_no_gradient_and_no_score(make_graph, num_nodes, entries):
    graph = GraphTensors.of(make_graph(num_nodes, entries, both_ways=True), CPU, LinkSplit(val=0.4, test=0.4, seed=0))
    z = torch.randn(num_nodes, 3)
    gradient, loss = torch.func.grad_and_value(lambda z: LinkPrediction().loss(z, graph, stream()))(z)
    assert loss.item() == 0
    assert torch.equal(gradient, torch.zeros_like(z))
    assert all(pair.tolist() == [0, 0] for pair in LinkPrediction().scores(z, graph).values())


def test_gradients_are_finite_where_embeddings_are_zero(make_graph):
    graph = graph_with_links(make_graph)
    gradient = torch.func.grad(lambda z: LinkPrediction().loss(z, graph, stream()))(torch.zeros(20, 4))
    assert torch.isfinite(gradient).all()


def test_classification_draws_nothing_and_scores_nodes(path_graphs):
    graph, logits = GraphTensors.of(path_graphs[0], CPU), torch.zeros(4, 2)
    objective = NodeClassification()
    assert objective.loss(logits, graph, stream()).item() == pytest.approx(math.log(2))
    assert objective.train_mask(graph).tolist() == [True, True, False, False]
    assert objective.scores(logits, graph)["val_accuracy"].tolist() == [1, 1]


def test_an_objective_scores_what_it_says():
    assert {name: objective.metric for name, objective in OBJECTIVES.items()} == {"node": "accuracy", "link": "auc"}
