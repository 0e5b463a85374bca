"""Counts and edge losses of real graphs; needs the raw files."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from fedgraph_sim.datasets.amazon_coauthor import AmazonCoauthor
from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.heterophilous import Heterophilous
from fedgraph_sim.datasets.partitioners.louvain import Louvain
from fedgraph_sim.datasets.partitioners.metis import Metis
from fedgraph_sim.datasets.partitioners.overlap import Overlap
from fedgraph_sim.datasets.planetoid import Planetoid
from fedgraph_sim.datasets.preprocess import adjacency
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.storage import prepare
from fedgraph_sim.datasets.subcora import SubCora


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    ("name", "largest_component", "nodes", "edges", "features", "classes"),
    [
        ("Cora", False, 2708, 10556, 1433, 7),
        ("Cora", True, 2485, 10138, 1433, 7),
        ("CiteSeer", False, 3327, 9104, 3703, 6),
        ("CiteSeer", True, 2120, 7358, 3703, 6),
        ("PubMed", False, 19717, 88648, 500, 3),
    ],
)
def test_planetoid_counts(data_dir, cache_dir, name, largest_component, nodes, edges, features, classes):
    graph = Planetoid(name=name, largest_component=largest_component).load(data_dir, cache_dir)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (nodes, edges, features)
    assert graph.num_classes == classes
    sums = graph.x.sum(axis=1)
    np.testing.assert_allclose(sums[sums > 0], 1, rtol=1e-5)


def test_planetoid_public_split(data_dir, cache_dir):
    graph = Planetoid(name="Cora", largest_component=False).load(data_dir, cache_dir)
    assert [graph.count(role) for role in (Role.TRAIN, Role.VAL, Role.TEST)] == [140, 500, 1000]


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [("Computers", 13752, 491722, 767, 10), ("Photo", 7650, 238162, 745, 8), ("CS", 18333, 163788, 6805, 15)],
)
def test_amazon_and_coauthor_counts(data_dir, cache_dir, name, nodes, edges, features, classes):
    graph = AmazonCoauthor(name=name, largest_component=False).load(data_dir, cache_dir)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (nodes, edges, features)
    assert graph.num_classes == classes


def test_chameleon_counts(data_dir, cache_dir):
    dataset = Heterophilous(name="chameleon", largest_component=False, self_loops=False)
    graph = dataset.load(data_dir, cache_dir)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (2277, 2325, 5)
    assert graph.count(Role.TRAIN) == 1092


def run(data_dir, cache_dir, name, partitioner, num_clients, **options):
    dataset = Planetoid(name=name, **options)
    paths = {"data_dir": data_dir, "cache_dir": cache_dir}
    return prepare(dataset, Split(), partitioner, num_clients=num_clients, seed=0, **paths)[0]


@pytest.mark.parametrize(
    ("name", "num_clients", "lost"),
    [("Cora", 5, 0.077), ("Cora", 10, 0.121), ("Cora", 20, 0.163), ("CiteSeer", 10, 0.086), ("CiteSeer", 20, 0.112)],
)
def test_metis_loses_as_many_edges_as_published(data_dir, cache_dir, name, num_clients, lost):
    info = run(data_dir, cache_dir, name, Metis(), num_clients).info
    assert info.edges_lost / info.num_edges == pytest.approx(lost, abs=0.015)
    assert info.size_balance < 1.04
    assert sum(info.nodes) == info.num_nodes


def test_split_of_cora(data_dir, cache_dir):
    info = run(data_dir, cache_dir, "Cora", Metis(), 10).info
    assert (sum(info.train), sum(info.test), sum(info.val)) == (497, 994, 994)


@pytest.mark.parametrize(("num_clients", "mean_nodes"), [(10, 621), (30, 207), (50, 124)])
def test_overlap_of_cora(data_dir, cache_dir, num_clients, mean_nodes):
    info = run(data_dir, cache_dir, "Cora", Overlap(), num_clients).info
    assert np.mean(info.nodes) == pytest.approx(mean_nodes, abs=1)
    assert sum(info.isolated) / sum(info.nodes) == pytest.approx(0.195, abs=0.03)


@pytest.mark.parametrize(
    ("name", "num_clients", "lost"),
    [
        ("Cora", 3, 496),
        ("Cora", 5, 552),
        ("Cora", 10, 912),
        ("CiteSeer", 3, 178),
        ("CiteSeer", 5, 224),
        ("CiteSeer", 10, 247),
    ],
)
def test_louvain_loses_about_as_many_edges_as_published_and_never_fails(data_dir, cache_dir, name, num_clients, lost):
    graph = Planetoid(name=name, largest_component=False).load(data_dir, cache_dir)
    mean, counts = graph.num_nodes // num_clients, []
    for seed in range(20):
        members = Louvain().assign(graph, num_clients, seed)
        sizes = np.array([len(nodes) for nodes in members])
        assert sizes.sum() == graph.num_nodes
        assert sizes.max() < mean + 25
        owner = np.repeat(np.arange(num_clients), sizes)[np.argsort(np.concatenate(members))]
        counts.append(np.count_nonzero(owner[graph.edge_index[0]] != owner[graph.edge_index[1]]) / 2)
    assert np.mean(counts) == pytest.approx(lost, rel=0.12)


def test_a_client_of_the_store_equals_its_nodes_of_the_whole(data_dir, cache_dir):
    store = run(data_dir, cache_dir, "CiteSeer", Metis(), 10)
    whole, part = store.whole(), store.load([3])[3]
    assert abs(whole.x[part.node_id] - part.x).sum() == 0
    assert (whole.y[part.node_id] == part.y).all()
    entries = set(map(tuple, whole.edge_index.T.tolist()))
    assert set(map(tuple, part.node_id[part.edge_index].T.tolist())) <= entries


@pytest.mark.parametrize("seed", range(3))
def test_subcora_is_a_connected_part_and_what_is_near(data_dir, cache_dir, seed):
    graph = SubCora(seed=seed).load(data_dir, cache_dir)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (300, 1433, 7)
    num_train = graph.count(Role.TRAIN)
    assert 30 <= num_train <= 50
    assert (graph.count(Role.VAL), graph.count(Role.TEST)) == (num_train, 300 - 2 * num_train)
    links = adjacency(graph)
    train = np.flatnonzero(graph.role == Role.TRAIN)
    assert connected_components(links[train][:, train])[0] == 1
    other = SubCora(seed=seed + 100).load(data_dir, cache_dir)
    assert (graph.y != other.y).any()
