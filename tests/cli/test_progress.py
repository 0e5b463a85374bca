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


def test_profile_says_where_a_round_goes(invoke):
    small = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "2")
    shown = invoke("run", *small, "--profile").stdout
    assert all(f"{part}: " in shown for part in ("compute", "transport", "server", "evaluation", "recorder"))
    assert "compute: " not in invoke("run", *small, "--name", "plain").stdout
