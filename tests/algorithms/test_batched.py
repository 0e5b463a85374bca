"""Every algorithm: all clients in one computation give what one client after another gives."""

from typing import get_args

import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GRAPH
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.engine.spread import brought
from fedgraph_sim.engine.tree import leaves

NUM_FEATURES = 40


def random_graph(num_nodes: int, num_edges: int, seed: int, *, role: Role | None = None, is_sparse: bool) -> Graph:
    """Return a random undirected graph of 3 classes; `role`, if given, is that of all nodes."""
    rng = np.random.default_rng(seed)
    x = (rng.random((num_nodes, NUM_FEATURES)) < 0.1).astype(np.float32)
    ends = rng.integers(0, num_nodes, (2, num_edges))
    ends = ends[:, ends[0] != ends[1]]
    roles = rng.integers(1, 4, num_nodes) if role is None else np.full(num_nodes, role)
    return Graph(
        x=sparse.csr_array(x) if is_sparse else x,
        edge_index=np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1),
        edge_weight=None,
        y=rng.integers(0, 3, num_nodes),
        role=roles.astype(np.int8),
        node_id=np.arange(num_nodes),
        num_classes=3,
    )


def odd_clients(*, is_sparse: bool) -> list[Graph]:
    """Return clients of all sizes, among them one without edges, one without training nodes and one with one node."""
    return [
        random_graph(30, 60, 0, is_sparse=is_sparse),
        random_graph(28, 0, 1, is_sparse=is_sparse),
        random_graph(27, 50, 2, role=Role.TEST, is_sparse=is_sparse),
        random_graph(1, 0, 3, role=Role.TRAIN, is_sparse=is_sparse),
        random_graph(12, 20, 4, is_sparse=is_sparse),
        random_graph(10, 30, 5, is_sparse=is_sparse),
        random_graph(29, 90, 6, is_sparse=is_sparse),
    ]


FIELDS = {"hidden": 16, "dropout": 0.5, "local_epochs": 2, "lr": 0.02}
OPTIONS = {
    "all": {},
    "reset": {"fraction": 0.6, "optimizer_state": "reset"},
    "some": {"fraction": 0.6},
    "link": {"fraction": 0.6, "task": "link"},
    "steps": {"fraction": 0.6, "batch_size": 4},
}
MODELS = [{"model": name} for name in ("gcn", "sage", "mlp")]
SMALL = {"widths": (16, 8), "latent": 8, "num_pred": 2, "pretrain_steps": 2, "generator_batch": 6}
OWN = {
    "fedsage": {"batch_size": 8, "sizes": (3, 2)},
    "locsage": {"batch_size": 8, "sizes": (3, 0)},
    "fedsage_plus": {"batch_size": 8, "sizes": (3, 2), "generator_rounds": 2, "hide": 0.3, **SMALL},
    "locsage_plus": {"batch_size": 8, "sizes": (3, 0), "hide": 0.3, **SMALL},
}
"""What makes an algorithm's defaults fit small graphs and few rounds."""


def fits(kind, name, options):
    """Tell whether an algorithm has all of the options, with these values, and does not have them anyway."""
    fields = kind.model_fields
    own = {key: value for key, value in options.items() if key != "fraction"}
    if any(key not in fields or key in OWN.get(name, {}) for key in own if key != "task"):
        return False
    kinds = {key: get_args(fields[key].annotation) if key in fields else ("node",) for key in own}
    return all(value in kinds[key] for key, value in own.items() if isinstance(value, str))


CASES = [
    pytest.param(name, options | model, id="-".join([name, case, *model.values()]))
    for name, kind in ALGORITHMS.items()
    for case, options in OPTIONS.items()
    for model in (MODELS if "model" in kind.model_fields else [{}])
    if kind.kind is GRAPH and not kind.pooled and fits(kind, name, options | model)
]
LINKS = sparse.csr_array(np.ones((7, 7)) - np.eye(7))


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("is_sparse", [True, False])
def test_batched_equals_loop(name, is_sparse, options, make_federation, train):
    kind = ALGORITHMS[name]
    fields = {key: value for key, value in (FIELDS | options).items() if key in kind.model_fields}
    algorithm = kind(**fields | OWN.get(name, {}))
    graphs = odd_clients(is_sparse=is_sparse)
    outcomes = []
    for batched in (False, True):
        fraction = options.get("fraction", 1.0)
        fed = make_federation(algorithm, graphs, fraction=fraction, batched=batched, client_graph=LINKS)
        server = train(algorithm, fed, 4)
        replies = algorithm.ask_for_scores(fed, server)
        fed.settle()
        outcomes.append((brought(server), replies.tree, fed.ledger.table()))
    (loop, loop_scores, loop_ledger), (batched, batched_scores, batched_ledger) = outcomes
    assert loop_ledger.equals(batched_ledger)
    for first, second in ((loop, batched), (loop_scores, batched_scores)):
        for (path, expected), (_, actual) in zip(leaves(first), leaves(second), strict=True):
            assert torch.allclose(actual, expected, rtol=1e-5, atol=1e-5), path


SERIES_OPTIONS = {
    "all": {},
    "keep": {"fraction": 0.6, "optimizer_state": "keep", "local_epochs": 2},
    "masked": {"fraction": 0.6, "masked_loss": True},
    "server": {"server_fraction": 0.4, "server_epochs": 2, "average": False},
}
SERIES_CASES = [
    pytest.param(name, options, id=f"{name}-{case}")
    for name, kind in ALGORITHMS.items()
    for case, options in SERIES_OPTIONS.items()
    if kind.kind is SERIES and not kind.pooled and options.keys() - {"fraction"} <= kind.model_fields.keys()
]


@pytest.mark.parametrize(("name", "options"), SERIES_CASES)
def test_batched_equals_loop_for_series(name, options, make_series, make_sensors, train):
    """Among the sensors are one that reads nothing and one that trains on nothing; the last minibatch is smaller."""
    series = make_series(split={"unseen": ("road-1-sensor-0",)}, missing=0.2)
    series.values[1], series.observed[1] = 0, False
    small = {"graph_hidden": 8, "graph_out": 4, "server_batch": 16}
    kind = ALGORITHMS[name]
    fields = {key: value for key, value in (small | {"local_epochs": 1}).items() if key in kind.model_fields}
    chosen = {key: value for key, value in options.items() if key != "fraction"}
    algorithm = kind(hidden=5, batch_size=10, lr=0.01, **(fields | chosen))
    outcomes = []
    for batched in (False, True):
        fed = make_sensors(algorithm, series, fraction=options.get("fraction", 1.0), batched=batched)
        server = train(algorithm, fed, 3)
        fed.begin(round=3, kind="eval")
        replies = algorithm.ask_for_scores(fed, server)
        fed.settle()
        outcomes.append((server, replies.tree, fed.ledger.table()))
    (loop, loop_scores, loop_ledger), (batched, batched_scores, batched_ledger) = outcomes
    assert loop_ledger.equals(batched_ledger)
    for first, second in ((loop, batched), (loop_scores, batched_scores)):
        for (path, expected), (_, actual) in zip(leaves(first), leaves(second), strict=True):
            assert torch.allclose(actual, expected, rtol=1e-4, atol=1e-4), path
