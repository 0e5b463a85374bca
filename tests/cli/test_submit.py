import re

import pytest

from fedgraph_sim.remote import jobs


@pytest.fixture
def submitted(monkeypatch):
    """The names under which runs were submitted, to no cluster."""
    names = []

    class Nowhere:
        def __init__(self, address):
            pass

        def submit(self, name, working_dir, arguments, *, folder):
            names.append(name)

    monkeypatch.setattr(jobs, "Jobs", Nowhere)
    return names


def test_a_run_of_the_users_own_class_has_a_name_that_a_job_can_have(invoke, tmp_path, submitted):
    (tmp_path / "own_average.py").write_text(
        "from fedgraph_sim.algorithms.fedavg import FedAvg\n\n\n"
        "class Mine(FedAvg):\n    name: str = 'own_average:Mine'\n"
    )
    result = invoke("submit", "--algorithm", "own_average:Mine")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"\d{8}-\d{6}-Mine-csbm", *submitted)
