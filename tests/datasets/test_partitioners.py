import numpy as np
import pytest

from fedgraph_sim.datasets.communities import louvain, modularity
from fedgraph_sim.datasets.karate import Karate
from fedgraph_sim.datasets.partitioners.column import Column
from fedgraph_sim.datasets.partitioners.label_dirichlet import LabelDirichlet
from fedgraph_sim.datasets.partitioners.louvain import Louvain
from fedgraph_sim.datasets.partitioners.metis import Metis
from fedgraph_sim.datasets.partitioners.node import Node
from fedgraph_sim.datasets.partitioners.overlap import Overlap
from fedgraph_sim.datasets.partitioners.random import Random
from fedgraph_sim.datasets.partitioners.whole import Whole
from fedgraph_sim.datasets.preprocess import adjacency
from fedgraph_sim.errors import ConfigError

DISJOINT = [Metis(), Metis(recursive=True), Louvain(), Random(), LabelDirichlet(alpha=100, max_tries=2000)]
BY_NAME = {"ids": lambda partitioner: partitioner.name}
TWO_TRIANGLES = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]


def check_cover(members, num_clients, num_nodes):
    assert len(members) == num_clients
    assert all(len(nodes) > 0 for nodes in members)
    assert all((np.diff(nodes) > 0).all() for nodes in members)
    assert sorted(np.concatenate(members).tolist()) == list(range(num_nodes))


@pytest.fixture(scope="module")
def karate(tmp_path_factory):
    return Karate().load(None, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("num_clients", range(1, 35))
@pytest.mark.parametrize("partitioner", [Metis(), Metis(recursive=True), Louvain(), Random()], **BY_NAME)
def test_every_number_of_clients_of_the_karate_club(karate, partitioner, num_clients):
    for seed in range(3):
        check_cover(partitioner.assign(karate, num_clients, seed), num_clients, 34)


@pytest.mark.parametrize("partitioner", DISJOINT, **BY_NAME)
@pytest.mark.parametrize(
    ("num_nodes", "entries", "num_clients"),
    [
        (3, [(0, 1), (1, 2)], 2),  # path, directed
        (6, TWO_TRIANGLES, 2),  # directed
        (8, TWO_TRIANGLES, 3),  # isolated nodes
        (6, [(0, 0), (1, 1)], 2),  # self loops only
        (6, [], 3),  # no edges
        (4, [(0, 1)], 1),
    ],
)
def test_degenerate_graphs(make_graph, partitioner, num_nodes, entries, num_clients):
    graph = make_graph(num_nodes, entries)
    check_cover(partitioner.assign(graph, num_clients, seed=0), num_clients, num_nodes)


@pytest.mark.parametrize("partitioner", [*DISJOINT, Overlap(clients_per_part=1)], **BY_NAME)
def test_same_seed_same_parts(karate, partitioner):
    first, again = (partitioner.assign(karate, 4, seed=5) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("partitioner", [*DISJOINT, Overlap(), Whole(), Column()], **BY_NAME)
@pytest.mark.parametrize("num_clients", [0, 35])
def test_more_clients_than_nodes(karate, partitioner, num_clients):
    with pytest.raises(ConfigError, match=f"clients={num_clients} but the graph has 34 nodes"):
        partitioner.assign(karate, num_clients, seed=0)


@pytest.mark.parametrize("partitioner", [Metis(), Louvain(delta=2)], **BY_NAME)
def test_the_cut_is_the_one_edge_between_triangles(make_graph, partitioner):
    members = partitioner.assign(make_graph(6, TWO_TRIANGLES), 2, seed=0)
    assert sorted(nodes.tolist() for nodes in members) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("num_clients", [19, 20])
def test_metis_fills_parts_of_single_nodes(make_graph, num_clients):
    path = make_graph(20, [(i, i + 1) for i in range(19)])
    check_cover(Metis().assign(path, num_clients, seed=0), num_clients, 20)


def test_louvain_finds_the_communities_of_the_karate_club(karate):
    links = adjacency(karate)
    best = max(modularity(links, louvain(links, seed)) for seed in range(5))
    assert 0.41 < best < 0.42  # the optimum is 0.4198


def test_louvain_without_edges_keeps_single_nodes(make_graph):
    assert louvain(adjacency(make_graph(3, [])), seed=0).tolist() == [0, 1, 2]


def test_louvain_chops_and_balances(make_graph):
    clique = [(i, j) for i in range(20) for j in range(i)]
    members = Louvain(delta=2).assign(make_graph(40, clique), 4, seed=0)
    assert max(len(nodes) for nodes in members) <= 12


def test_louvain_every_class(karate):
    members = Louvain(every_class=True).assign(karate, 6, seed=0)
    check_cover(members, 6, 34)
    assert all(np.bincount(karate.y[nodes], minlength=2).min() >= 2 for nodes in members)
    with pytest.raises(ConfigError, match="needs 20 nodes of class 0 for clients=10 but there are 17"):
        Louvain(every_class=True).assign(karate, 10, seed=0)


def test_random_sizes_differ_by_at_most_one(make_graph):
    assert [len(nodes) for nodes in Random().assign(make_graph(10, []), 4, seed=0)] == [3, 3, 2, 2]


def test_dirichlet_skew_depends_on_alpha(make_graph):
    graph = make_graph(1000, [], y=np.concatenate([np.zeros(450), np.ones(450), -np.ones(100)]).astype(np.int64))

    def share_of_class_0(alpha):
        members = LabelDirichlet(alpha=alpha, min_nodes=5).assign(graph, 4, seed=1)
        check_cover(members, 4, 1000)
        return np.array([np.count_nonzero(graph.y[nodes] == 0) / 450 for nodes in members])

    assert np.abs(share_of_class_0(1e4) - 0.25).max() < 0.02
    assert share_of_class_0(0.3).max() > 0.5


def test_dirichlet_gives_up_with_an_error(karate):
    with pytest.raises(ConfigError, match=r"partition\.alpha=0\.01 with clients=30 left a client with fewer"):
        LabelDirichlet(alpha=0.01).assign(karate, 30, seed=0)


def test_overlap_samples_each_part(make_graph):
    members = Overlap(clients_per_part=3, share=0.7).assign(make_graph(6, TWO_TRIANGLES), 6, seed=0)
    assert [len(nodes) for nodes in members] == [2] * 6
    first, second = (set(np.concatenate(members[start : start + 3]).tolist()) for start in (0, 3))
    assert {frozenset(first) <= {0, 1, 2}, frozenset(second) <= {0, 1, 2}} == {True, False}
    assert first.isdisjoint(second)


def test_overlap_needs_a_multiple(karate):
    with pytest.raises(ConfigError, match=r"clients=7 is not a multiple of partition\.clients_per_part=5"):
        Overlap().assign(karate, 7, seed=0)


def test_column(make_graph):
    graph = make_graph(4, [], client=np.array([1, 0, 1, 2]))
    assert [nodes.tolist() for nodes in Column().assign(graph, 3, seed=0)] == [[1], [0, 2], [3]]
    with pytest.raises(ConfigError, match="clients=2 but the client column names 3 clients; set clients=3"):
        Column().assign(graph, 2, seed=0)
    with pytest.raises(ConfigError, match="no client column"):
        Column().assign(make_graph(4, []), 2, seed=0)


def test_whole(karate):
    assert Whole().assign(karate, 1, seed=0)[0].tolist() == list(range(34))
    with pytest.raises(ConfigError, match="clients=2; set clients=1"):
        Whole().assign(karate, 2, seed=0)


def test_node_gives_each_client_one_node(karate):
    check_cover(Node().assign(karate, 34, seed=0), 34, 34)
    with pytest.raises(ConfigError, match="makes 34 clients but clients=10; set clients=34"):
        Node().assign(karate, 10, seed=0)
