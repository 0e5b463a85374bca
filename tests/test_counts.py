import pytest

from fedgraph_sim.counts import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "client", "0 clients"),
        (1, "client", "1 client"),
        (2, "directed edge", "2 directed edges"),
        (1, "class", "1 class"),
        (6, "class", "6 classes"),
    ],
)
def test_a_noun_follows_its_number(number, noun, text):
    assert counted(number, noun) == text
