import pytest
import torch

from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.client_axis import pick
from fedgraph_sim.engine.cohort import InlineCohort
from fedgraph_sim.engine.spread import HeldHere, Spread, added, brought, expanded
from fedgraph_sim.errors import RunError

ROWS = {"w": torch.arange(12.0).view(4, 3), "b": torch.tensor([1.0, 2.0, 3.0, 4.0])}
PLACES = {"one place": [[0, 1, 2, 3]], "two places": [[3, 0], [1, 2]], "one each": [[0], [1], [2], [3]]}
MATRIX = torch.tensor([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, -1, 2]])


def spread_of(tree, positions, *, clients=(7, 1, 5, 3), apart=True):
    parts = [HeldHere(pick(tree, places)) for places in positions]
    return Spread(clients, parts, positions, apart=apart)


@pytest.fixture(params=PLACES.values(), ids=PLACES)
def positions(request):
    return request.param


def test_a_tree_comes_back_in_the_order_of_its_clients(positions):
    spread = spread_of(ROWS, positions)
    assert spread.tree()["w"].equal(ROWS["w"])
    assert spread.tree([5, 7])["b"].tolist() == [3, 1]
    assert brought({"kept": spread, "plain": ROWS["b"]})["kept"]["b"].equal(ROWS["b"])


@pytest.mark.parametrize("apart", [False, True])
def test_mix_is_a_product_with_the_matrix(positions, apart):
    mixed = spread_of(ROWS, positions, apart=apart).mix(MATRIX).tree()
    assert mixed["w"].tolist() == (MATRIX @ ROWS["w"]).tolist()
    assert mixed["b"].tolist() == (MATRIX @ ROWS["b"]).tolist()


def test_mix_is_the_same_to_the_bit_for_every_packing_unless_apart():
    rows = {"w": torch.randn(4, 50, 30, generator=torch.Generator().manual_seed(0))}
    matrix = torch.rand(4, 4, generator=torch.Generator().manual_seed(1))
    first, *others = (spread_of(rows, positions, apart=False).mix(matrix).tree()["w"] for positions in PLACES.values())
    assert all(other.equal(first) for other in others)


def one_below_another(trees):
    return {name: torch.cat([tree[name] for tree in trees]) for name in trees[0]}


@pytest.mark.parametrize("apart", [False, True])
def test_rows_of_any_length_are_added_up_by_a_function_of_ones_own(positions, apart):
    rows = {"w": [torch.full((length,), float(length)) for length in (1, 0, 3, 2)]}
    total = spread_of(rows, positions, apart=apart).total(HeldHere(None), one_below_another).tree()["w"].tolist()
    order = [at for places in positions for at in places] if apart else range(4)
    assert total == [float(length) for length in ((1, 0, 3, 2)[at] for at in order) for _ in range(length)]


@pytest.mark.parametrize("apart", [False, True])
def test_rows_are_added_up_in_one_place(positions, apart):
    spread = spread_of(ROWS, positions, apart=apart)
    total = spread.total(spread.row(5), added).tree()
    assert total["w"].tolist() == ROWS["w"].sum(dim=0).tolist()
    assert total["b"].tolist() == 10


def test_new_rows_take_the_places_of_old_ones(positions):
    spread = spread_of(ROWS, positions)
    rows = {client: HeldHere({"v": torch.tensor([float(client)])}) for client in spread.clients}
    assert [float(row) for row in spread.with_rows(rows).tree()["v"]] == [7, 1, 5, 3]


def test_put_replaces_the_rows_of_some_clients_only(positions):
    everyone = spread_of(ROWS, positions)
    new = {name: -leaf[[1, 3]] for name, leaf in ROWS.items()}
    home = {client: place for place, places in enumerate(positions) for client in places}
    inside = [[row for row, at in enumerate((1, 3)) if home[at] == place] for place in range(len(positions))]
    some = spread_of(new, [rows for rows in inside if rows], clients=(1, 3))
    result = everyone.put(some).tree()
    assert result["w"].tolist() == [[0, 1, 2], [-3, -4, -5], [6, 7, 8], [-9, -10, -11]]
    assert everyone.tree()["w"].equal(ROWS["w"])  # which others may be reading


def test_map_is_computed_place_by_place(positions):
    total = spread_of(ROWS, positions).map(pairwise_sum, spread_of(ROWS, positions))
    assert total.tree()["w"].equal(2 * ROWS["w"])


def pairwise_sum(rows, others):
    return {name: leaf + others[name] for name, leaf in rows.items()}


def test_rows_are_found_in_their_place(positions):
    spread = spread_of(ROWS, positions)
    for places in positions:
        rows = spread.rows([spread.clients[at] for at in places[::-1]])
        assert rows.held.tree()["w"][list(rows.positions)].equal(ROWS["w"][places[::-1]])


def test_what_could_not_be_computed_ends_the_run_where_it_is_wanted(positions):
    failure = Call(step="train", round=3, seed=0, clients=(1,)).failure("client 1", "went wrong")
    parts = [HeldHere(failure), *(HeldHere(pieces) for pieces in [ROWS] * (len(positions) - 1))]
    spread = Spread((7, 1, 5, 3), parts, positions, apart=True)
    assert isinstance(spread.total(spread.row(5), added).tree(), StepFailure)
    mixed = spread.mix(MATRIX)
    assert all(isinstance(part.tree(), StepFailure) for part in mixed._parts)
    with pytest.raises(RunError, match="client 1, round 3, step train: went wrong"):
        mixed.tree()


def test_expanded_rows_have_memory_of_their_own():
    rows = expanded({"w": torch.ones(3)}, 2)["w"]
    rows[0] += 1
    assert rows.tolist() == [[2, 2, 2], [1, 1, 1]]


def test_a_cohort_spreads_a_tree(make_host, path_graphs):
    from fedgraph_sim.algorithms.fedavg import FedAvg

    hosts = [make_host(FedAvg(), path_graphs[:1]), make_host(FedAvg(), path_graphs[1:])]
    spread = InlineCohort(((1,), (0,)), hosts).spread({"w": torch.tensor([1.0, 2.0])})
    assert spread.clients == (0, 1)
    assert spread.tree()["w"].tolist() == [[1, 2], [1, 2]]
