import numpy as np
import pandas as pd

from fedgraph_sim.results.client_matrices import matrices_of, reading_order, recorded, some_rounds


def test_matrices_by_name_and_round_with_gaps_for_who_was_not_there():
    rows = [(1, "s", 0, 2, 0.5), (1, "s", 2, 0, 0.25), (0, "of the partition", 1, 1, 1.0)]
    found = matrices_of(pd.DataFrame(rows, columns=["round", "name", "row", "column", "value"]), 3)
    expected = np.full((3, 3), np.nan)
    expected[0, 2], expected[2, 0] = 0.5, 0.25
    np.testing.assert_array_equal(found["s"][1], expected)
    assert list(recorded(found)) == ["s"]
    assert matrices_of(pd.DataFrame(), 3) == {}


def test_similar_clients_become_neighbours():
    group = np.array([0, 1, 2, 0, 1, 2, 0])
    similarity = np.where(group[:, None] == group, 0.9, 0.1)
    np.fill_diagonal(similarity, 1.0)
    order = group[list(reading_order(similarity))]
    assert np.count_nonzero(np.diff(order)) == 2


def test_the_order_stays_where_there_is_nothing_to_order_by():
    assert list(reading_order(np.ones((2, 2)))) == [0, 1]
    assert list(reading_order(np.full((4, 4), np.nan))) == [0, 1, 2, 3]


def test_some_rounds_are_first_last_and_between():
    assert list(some_rounds(dict.fromkeys(range(1, 101)), 5)) == [1, 26, 51, 75, 100]
    assert list(some_rounds({7: np.eye(2)})) == [7]
