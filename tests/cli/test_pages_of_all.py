"""Every algorithm's run can be shown: what runs write, readers read."""

import pytest

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.results.comparison import compare
from fedgraph_sim.results.page import report_page
from fedgraph_sim.results.run_folder import load_run

GRAPH = ("--set", "dataset.num_nodes=120", "--set", "dataset.num_communities=3", "--clients", "3")
SENSORS = ("--set", "dataset.num_roads=2", "--set", "dataset.road_length=2", "--set", "dataset.length=150")
SMALL = {
    "fedsage_plus": ("--set", "algorithm.widths=[8]", "--set", "algorithm.generator_rounds=2"),
    "locsage_plus": ("--set", "algorithm.widths=[8]"),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_of_every_algorithm_has_a_page_and_a_line(invoke, tmp_path, name):
    data = SENSORS if ALGORITHMS[name].kind is SERIES else GRAPH
    options = (*data, *SMALL.get(name, ()), "--rounds", "2", "--name", "run")
    result = invoke("run", "--inline", "--algorithm", name, *options)
    assert result.exit_code == 0, result.output
    run = load_run(tmp_path / "runs" / "run")
    assert "<h3>Training</h3>" in report_page([run])
    assert len(compare([run]).rows) == 1


def test_a_run_that_failed_before_its_first_round_has_a_page(invoke, tmp_path):
    options = ("--set", "algorithm.lr=1e30", "--set", "algorithm.hidden=4")
    result = invoke("run", "--inline", "--algorithm", "fedavg", *GRAPH, *options, "--rounds", "2", "--name", "run")
    assert result.exit_code == 1, result.output
    run = load_run(tmp_path / "runs" / "run")
    assert '<p class="status failed">failed' in report_page([run])
