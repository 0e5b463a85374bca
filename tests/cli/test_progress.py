import pytest

from fedgraph_sim.cli.progress import human_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (5_000_000_000, "5.0 GB"),
        (7_100_000_000_000_000, "7100.0 TB"),
    ],
)
def test_human_bytes(count, text):
    assert human_bytes(count) == text
