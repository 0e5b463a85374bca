import subprocess
import sys

import pytest

from fedgraph_sim import RunConfig, load_run, run
from fedgraph_sim.algorithms.local import Local
from fedgraph_sim.datasets.karate import Karate
from fedgraph_sim.datasets.partitioners.metis import Metis
from fedgraph_sim.errors import ConfigError, RunError

SMALL = {"dataset.num_nodes": 300, "clients": 2, "rounds": 2, "algorithm.hidden": 8}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDGRAPH_CACHE", str(tmp_path / "cache"))


def test_a_run_returns_its_folder(tmp_path, capsys):
    result = run(changes={**SMALL, "algorithm": "fedavg"}, name="first", inline=True)
    assert result.folder == tmp_path / "runs" / "first"
    assert (result.status, len(result.rounds), len(result.clients)) == ("completed", 2, 4)
    assert result.get("algorithm") == "fedavg"
    assert load_run("runs/first").rounds.equals(result.rounds)
    captured = capsys.readouterr()
    assert "2/2" in captured.err
    assert captured.out == ""


def test_a_file_tables_and_objects_are_the_same_run(tmp_path):
    (tmp_path / "run.toml").write_text('clients = 2\nrounds = 1\ndataset = "karate"\nalgorithm = "local"\n')
    objects = RunConfig(clients=2, rounds=1, dataset=Karate(), algorithm=Local(), partition=Metis())
    tables = {"clients": 2, "rounds": 1, "dataset": {"name": "karate"}, "algorithm": {"name": "local"}}
    results = [
        run(config, name=str(number), inline=True, progress=False)
        for number, config in enumerate(("run.toml", tables, objects))
    ]
    assert len({(result.folder / "config.toml").read_text() for result in results}) == 1
    assert len({result.rounds["test_loss"][0] for result in results}) == 1
    changed = run(objects, {"algorithm.lr": 0.5}, name="changed", inline=True, progress=False)
    assert changed.get("algorithm.lr") == 0.5


def test_a_recipe(tmp_path):
    changes = {**SMALL, "dataset": "csbm"}
    result = run("recipe:fedpub-cora-disjoint-10", changes, name="recipe", inline=True, progress=False)
    assert result.get("algorithm") == "fedpub"


def test_bad_input_is_refused_and_nothing_is_written(tmp_path):
    for changes in ({"algorithm.tua": 1}, {"rounds": 0}, {"algorithm": "nothing:Here"}):
        with pytest.raises(ConfigError):
            run(changes=changes, inline=True)
    with pytest.raises(ConfigError, match="cannot be a folder's name"):
        run(name="a/b", inline=True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_raises(tmp_path):
    with pytest.raises(RunError, match=r"diverged|NaN|inf"):
        run(changes={**SMALL, "algorithm.lr": 1e30, "rounds": 5}, name="wild", inline=True, progress=False)
    assert load_run("runs/wild").status == "failed"


OWN = """
from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner

class Mine(FedAvg):
    name: str = "own_module:Mine"

class Halves(Partitioner):
    name: str = "own_module:Halves"

    def _assign(self, graph, num_clients, seed):
        import numpy as np
        return [nodes[CUT:] for nodes in np.array_split(np.arange(graph.num_nodes), num_clients)]
"""


def test_classes_of_the_user_are_found_run_on_ray_and_repeat(tmp_path):
    """From the command line in a process of its own, as a user does it, with Ray's workers importing the module."""
    (tmp_path / "own_module.py").write_text(OWN.replace("CUT", "0"))
    command = [sys.executable, "-c", "from fedgraph_sim.cli.main import main; main()", "run"]
    options = ["--clients", "2", "--rounds", "1", "--dataset", "karate", "--set", "algorithm.hidden=8", "--name"]
    own = ["--algorithm", "own_module:Mine", "--partition", "own_module:Halves"]
    done = subprocess.run([*command, *own, *options, "first"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = run("runs/first/config.toml", name="again", inline=True, progress=False)
    assert again.get("algorithm") == "own_module:Mine"
    assert again.rounds["test_loss"][0] == pytest.approx(load_run("runs/first").rounds["test_loss"][0])


def test_an_edited_partitioner_makes_another_partition(tmp_path):
    code = (
        "from fedgraph_sim import run; "
        "r = run(changes={'dataset': 'karate', 'partition': 'own_module:Halves', 'clients': 2, 'rounds': 1, "
        "'algorithm': 'local'}, name='NAME', inline=True, progress=False); print(r.partition['nodes'])"
    )
    sizes = []
    for cut in ("0", "3"):
        (tmp_path / "own_module.py").write_text(OWN.replace("CUT", cut))
        command = [sys.executable, "-B", "-c", code.replace("NAME", cut)]
        sizes.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    assert sizes == ["[17, 17]", "[14, 14]"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Mine", "cannot be imported: ModuleNotFoundError"),
        ("json:Nothing", "cannot be imported: AttributeError"),
        ("json:JSONDecoder", "is not a class derived from fedgraph_sim.engine.algorithm.Algorithm"),
        ("broken_module:Mine", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_what_is_no_class_of_the_kind_is_refused(tmp_path, name, message):
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=message):
        run(changes={"algorithm": name}, inline=True)
