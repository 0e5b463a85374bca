import numpy as np
import pytest
from pydantic import ValidationError
from scipy.sparse.csgraph import connected_components

from fedgraph_sim.datasets.csbm_clients import CsbmDnc, CsbmSc, CsbmSnc
from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.partitioners.column import Column
from fedgraph_sim.datasets.partitioners.node import Node
from fedgraph_sim.datasets.preprocess import adjacency
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.storage import prepare
from fedgraph_sim.errors import ConfigError


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [CsbmDnc, CsbmSnc])
def test_training_nodes_are_connected_and_balanced(kind, seed, tmp_path):
    graph = kind(seed=seed).load(None, tmp_path)
    links = adjacency(graph) if graph.client is None else graph.client_graph
    first = np.arange(200) if graph.client is None else np.unique(graph.client, return_index=True)[1]
    role, y = graph.role[first], graph.y[first]
    assert np.bincount(role).tolist() == [0, 20, 20, 160]
    train = np.flatnonzero(role == Role.TRAIN)
    assert np.bincount(y[train]).tolist() == [10, 10]
    assert connected_components(links[train][:, train])[0] == 1


def test_samples_of_a_client_share_label_and_role(tmp_path):
    graph = CsbmSnc(seed=0, num_samples=7).load(None, tmp_path)
    assert graph.num_edges == 0
    assert np.bincount(graph.client).tolist() == [7] * 200
    for values in (graph.y, graph.role):
        assert (values.reshape(200, 7) == values[::7, None]).all()
    assert len(np.unique(graph.x[:, 0])) == 1400
    assert (graph.client_graph != graph.client_graph.T).nnz == 0
    assert abs(graph.client_graph.nnz / 200 - 10) < 2


def test_labels_follow_the_class_of_their_client_and_features_the_label(tmp_path):
    graph = CsbmSc(seed=0, num_nodes=400, feature_signal=40).load(None, tmp_path)
    y, role = graph.y.reshape(400, 120), graph.role.reshape(400, 120)
    assert (np.stack([(role == each).sum(axis=1) for each in (1, 2, 3)]).T == [10, 10, 100]).all()
    majority = y.mean(axis=1) > 0.5
    agree = np.where(majority[:, None], y, 1 - y).mean()
    assert agree == pytest.approx(0.7, abs=0.01)
    direction = graph.x[graph.y == 1].mean(axis=0) - graph.x[graph.y == 0].mean(axis=0)
    along = (graph.x @ direction / np.linalg.norm(direction)).reshape(400, 120)
    means = [[along[who][y[who] == label].mean() for label in (0, 1)] for who in (majority, ~majority)]
    assert means[0] == pytest.approx(means[1], abs=0.01)  # of a label, whoever has it
    assert means[0][1] - means[0][0] == pytest.approx(2 * (40 / 400) ** 0.5, rel=0.2)
    rows, columns = graph.client_graph.tocoo().coords
    assert (majority[rows] == majority[columns]).mean() > 0.85


def test_the_best_accuracy_is_that_of_who_knows_everything():
    assert CsbmSc().best_accuracy == pytest.approx(0.735, abs=0.001)
    assert CsbmSc(feature_signal=0).best_accuracy == 0.7
    rng = np.random.default_rng(0)
    y = np.where(rng.random(400_000) < 0.7, 1, -1)  # the client's class being +1
    along = 0.1 * rng.standard_normal(len(y)) + y * (0.1 / 50) ** 0.5
    guess = 2 * along * (0.1 / 50) ** 0.5 / 0.1**2 + np.log(0.7 / 0.3) > 0
    assert (guess == (y > 0)).mean() == pytest.approx(CsbmSc().best_accuracy, abs=0.003)


def test_features_have_the_published_size(tmp_path):
    graph = CsbmDnc(seed=0, num_nodes=4000, feature_signal=400, degree=10).load(None, tmp_path)
    sign = 2 * graph.y - 1
    direction = (sign[:, None] * graph.x).mean(axis=0)  # sqrt(mu / N) u
    noise = graph.x - sign[:, None] * direction
    assert abs(np.square(direction).sum() / (400 / 4000) - 1) < 0.5
    assert abs(noise.var() * 100 - 1) < 0.02


@pytest.mark.parametrize(("kind", "partitioner", "clients"), [(CsbmDnc, Node(), 200), (CsbmSc, Column(), 50)])
def test_the_seed_of_the_run_draws_the_graph_unless_it_has_its_own(kind, partitioner, clients, tmp_path):
    def store(dataset, seed):
        options = {"num_clients": clients, "seed": seed, "data_dir": None, "cache_dir": tmp_path}
        return prepare(dataset, Split(kind="own"), partitioner, **options)[0]

    first, again, other = (store(kind(), seed) for seed in (0, 0, 1))
    assert first.folder == again.folder != other.folder
    assert first.client_graph().nnz != other.client_graph().nnz
    assert first.client_graph().shape == (clients, clients)
    fixed = [store(kind(seed=3), seed).client_graph().toarray().tolist() for seed in (0, 1)]
    assert fixed[0] == fixed[1]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (CsbmDnc, {"degree": 3, "edge_signal": 2}, "at most sqrt"),
        (CsbmSc, {"num_nodes": 9}, "too high for 9 nodes"),
        (CsbmDnc, {"num_nodes": 30}, "exceeds num_nodes=30"),
    ],
)
def test_impossible_options_are_refused(kind, options, message):
    with pytest.raises(ValidationError, match=message):
        kind(**options)


def test_training_nodes_that_cannot_be_had_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgraph_sim.datasets.csbm_clients.MAX_TRIES", 3)
    sparse = CsbmDnc(num_nodes=40, degree=0.1, edge_signal=0.1, seed=0)
    with pytest.raises(ConfigError, match="none of 3 graphs has the training nodes"):
        sparse.load(None, tmp_path)


@pytest.mark.parametrize("kind", [CsbmSnc, CsbmSc])
def test_samples_have_no_component(kind, tmp_path):
    with pytest.raises(ConfigError, match="are samples, which no edges join; set it to false"):
        kind(seed=0, largest_component=True).load(None, tmp_path)
