import numpy as np
import pytest
from scipy import sparse

from fedgraph_sim.datasets.client_graph import client_graph
from fedgraph_sim.datasets.store import PartitionStore

PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]


def nodes(*groups):
    return [np.array(group, dtype=np.int64) for group in groups]


def test_edges_between_clients_add_up_to_links(make_graph):
    # 0 -> 1 within client 0; 1 -> 2 and 0 -> 3 to client 1; 3 -> 4 and back between clients 1 and 2.
    entries = [(0, 1), (1, 2), (0, 3), (3, 4), (4, 3)]
    weight = np.array([9, 1, 2, 4, 8], np.float32)
    parts = nodes([0, 1], [2, 3], [4])
    weighted = client_graph(make_graph(5, entries, edge_weight=weight), parts)
    assert weighted.toarray().tolist() == [[0, 0, 0], [3, 0, 8], [0, 4, 0]]
    plain = client_graph(make_graph(5, entries), parts)
    assert plain.toarray().tolist() == [[0, 0, 0], [2, 0, 1], [0, 1, 0]]


def test_of_one_node_per_client_it_is_the_graph_itself(make_graph):
    graph = make_graph(5, [*PATH, (2, 2)], both_ways=True)
    found = client_graph(graph, nodes([0], [1], [2], [3], [4]))
    assert found.toarray().tolist() == (np.eye(5, k=1) + np.eye(5, k=-1)).tolist()  # a self loop links nobody


def test_a_node_that_several_clients_hold_is_one_of_each(make_graph):
    found = client_graph(make_graph(3, [(0, 1), (1, 2)]), nodes([0, 1], [1], [2]))
    assert found.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("parts", "is_own"), [(([0, 1], [2], [3]), True), (([0, 2], [1], [3]), False), (([0, 1], [2]), False)]
)
def test_what_the_data_set_says_counts_for_its_own_clients(make_graph, parts, is_own):
    links = sparse.csr_array(np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]], float))
    graph = make_graph(4, [], client=np.array([3, 3, 5, 9]), client_graph=links)
    found = client_graph(graph, nodes(*parts))
    expected = links.toarray() if is_own else np.zeros((len(parts), len(parts)))
    assert found.toarray().tolist() == expected.tolist()


def test_the_store_keeps_it(make_graph, tmp_path):
    graph = make_graph(5, PATH, both_ways=True, edge_weight=np.arange(1, 9, dtype=np.float32))
    parts = nodes([0, 2], [1], [3, 4])
    store = PartitionStore.create(tmp_path / "s", graph, parts, dataset="made", partition="given")
    assert store.client_graph().toarray().tolist() == client_graph(graph, parts).toarray().tolist()
    assert store.client_graph().dtype == np.float64


def test_no_links_are_a_graph_too(make_graph, tmp_path):
    store = PartitionStore.create(tmp_path / "s", make_graph(2, []), nodes([0], [1]), dataset="m", partition="g")
    assert store.client_graph().toarray().tolist() == [[0, 0], [0, 0]]
