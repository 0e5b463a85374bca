import numpy as np
import pytest

from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.link_split import LinkSplit, pair_number
from fedgraph_sim.datasets.subgraph import induced_subgraphs

SPLIT = LinkSplit(val=0.2, test=0.3, seed=1)


def random_entries(num_nodes, count, seed):
    return np.random.default_rng(seed).integers(0, num_nodes, (count, 2)).tolist()


def links(entries):
    return {tuple(sorted(entry)) for entry in entries if entry[0] != entry[1]}


@pytest.fixture(params=["undirected", "directed", "weighted"])
def graph(request, make_graph):
    """A graph of 40 nodes with self loops, parallel edges and edges in one or both directions."""
    entries = [*random_entries(40, 200, seed=0), [3, 3], [1, 2], [1, 2], [2, 1]]
    fields = {"edge_weight": np.arange(len(entries), dtype=np.float32)} if request.param == "weighted" else {}
    return make_graph(40, entries, both_ways=request.param == "undirected", **fields)


def test_every_link_is_there_once_in_the_order_of_its_number(graph):
    examples = SPLIT.apply(graph)
    assert {tuple(pair) for pair in examples.pairs.T.tolist()} == links(graph.edge_index.T.tolist())
    assert (examples.pairs[0] < examples.pairs[1]).all()
    assert (np.diff(pair_number(*examples.pairs)) > 0).all()


def test_no_link_that_is_held_out_is_visible_in_either_direction(graph):
    examples = SPLIT.apply(graph)
    visible = {tuple(entry) for entry in examples.visible.edge_index.T.tolist()}
    held_out = examples.pairs[:, np.isin(examples.role, (Role.VAL, Role.TEST))].T.tolist()
    assert held_out
    assert not any((low, high) in visible or (high, low) in visible for low, high in held_out)


def test_all_other_edges_stay_as_they_are(graph):
    examples = SPLIT.apply(graph)
    training = {tuple(pair) for pair in examples.pairs[:, examples.role == Role.TRAIN].T.tolist()}
    kept = [entry[0] == entry[1] or tuple(sorted(entry)) in training for entry in graph.edge_index.T.tolist()]
    assert (examples.visible.edge_index == graph.edge_index[:, kept]).all()
    if graph.edge_weight is not None:
        assert (examples.visible.edge_weight == graph.edge_weight[kept]).all()


def test_a_link_has_one_role_wherever_it_is_held(make_graph):
    whole = make_graph(60, random_entries(60, 400, seed=3), both_ways=True)
    role = dict(zip(map(tuple, SPLIT.apply(whole).pairs.T.tolist()), SPLIT.apply(whole).role, strict=True))
    overlapping = [np.arange(0, 40), np.arange(20, 60)]
    for part in induced_subgraphs(whole, overlapping):
        examples = SPLIT.apply(part.graph)
        nodes = part.graph.node_id[examples.pairs]
        assert [role[tuple(pair)] for pair in nodes.T.tolist()] == examples.role.tolist()


def test_the_fractions_are_met_on_average(make_graph):
    role = SPLIT.apply(make_graph(300, random_entries(300, 20_000, seed=4))).role
    for wanted, kind in ((0.5, Role.TRAIN), (0.2, Role.VAL), (0.3, Role.TEST)):
        assert np.mean(role == kind) == pytest.approx(wanted, abs=5 * 0.5 / len(role) ** 0.5)


def test_the_seed_decides(make_graph):
    graph = make_graph(40, random_entries(40, 200, seed=0))
    other = LinkSplit(val=0.2, test=0.3, seed=2)
    assert (SPLIT.apply(graph).role == SPLIT.apply(graph).role).all()
    assert (SPLIT.apply(graph).role != other.apply(graph).role).any()


@pytest.mark.parametrize(("num_nodes", "entries"), [(2, [(0, 1)]), (3, [(0, 1), (1, 2), (2, 0)])])
def test_where_all_are_linked_no_link_is_an_example(make_graph, num_nodes, entries):
    for seed in range(20):
        examples = LinkSplit(val=0.4, test=0.4, seed=seed).apply(make_graph(num_nodes, entries))
        assert (examples.pairs.shape, examples.role.shape) == ((2, 0), (0,))
        assert examples.visible.num_edges == len(entries)


@pytest.mark.parametrize(("num_nodes", "entries"), [(1, []), (5, []), (1, [(0, 0)])])
def test_without_links_there_are_no_examples(make_graph, num_nodes, entries):
    examples = SPLIT.apply(make_graph(num_nodes, entries))
    assert examples.pairs.shape == (2, 0)
    assert examples.visible.num_edges == len(entries)


def test_pairs_are_numbered_without_a_gap():
    pairs = np.array([(low, high) for high in range(30) for low in range(high)]).T
    assert pair_number(*pairs).tolist() == list(range(30 * 29 // 2))
