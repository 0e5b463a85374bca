import csv
import json

import pytest

SWEEP = """
rounds = 2
[dataset]
name = "csbm"
num_nodes = 300
[algorithm]
hidden = 8
[sweep]
seeds = 2
methods = ["local", "sharp"]
[sweep.grid]
clients = [2, 3]
[sweep.method.sharp]
algorithm = "fedpub"
set = ["algorithm.tau=10"]
"""


@pytest.fixture
def sweep(invoke, tmp_path):
    def run(*options, text=SWEEP):
        (tmp_path / "grid.toml").write_text(text)
        return invoke("sweep", "grid.toml", "--jobs", "1", *options)

    return run


def summaries(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/summary.json"))]


def test_every_combination_is_run_and_shown(sweep, tmp_path):
    result = sweep()
    assert result.exit_code == 0, result.output
    folder = tmp_path / "runs" / "grid"
    found = [(each["algorithm"], each["num_clients"], each["seed"]) for each in summaries(folder)]
    assert sorted(found) == [(a, c, s) for a in ("fedpub", "local") for c in (2, 3) for s in (0, 1)]
    with (folder / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["clients"], row["method"], row["runs"]) for row in rows] == [
        *(("2", "local", "2"), ("2", "sharp", "2"), ("3", "local", "2"), ("3", "sharp", "2")),
    ]
    taus = [path.read_text().count("tau = 10") for path in folder.glob("*sharp*/config.toml")]
    assert taus == [1] * 4
    assert "| clients | method | runs | test accuracy % |" in (folder / "table.md").read_text()


def test_what_is_done_is_not_run_again_and_a_longer_list_adds_to_it(sweep, tmp_path):
    assert sweep().exit_code == 0
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "grid").glob("*/summary.json")}
    assert "8 runs, 8 of them done" in sweep().stderr
    result = sweep(text=SWEEP.replace("seeds = 2", "seeds = [0, 5]"))
    assert "8 runs, 4 of them done" in result.stderr
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_a_run_that_fails_is_named_and_the_others_go_on(sweep, tmp_path):
    result = sweep("--dry-run")
    assert result.stdout.count("to do") == 8
    text = SWEEP.replace('methods = ["local", "sharp"]', 'methods = ["local", "wild"]') + (
        '[sweep.method.wild]\nalgorithm = "local"\nset = ["algorithm.lr=1e30"]\n'
    )
    result = sweep("--set", "clients=2", text=text.replace("clients = [2, 3]", '"algorithm.dropout" = [0.5]'))
    assert result.exit_code == 1
    assert "failed: 0.5-wild-seed-0" in result.stdout
    assert [each["status"] for each in summaries(tmp_path / "runs" / "grid")].count("completed") == 2


def test_without_methods_and_grid_the_file_itself_is_repeated(sweep, tmp_path):
    result = sweep(text=SWEEP[: SWEEP.index("[sweep]")] + "[sweep]\nseeds = 2\n")
    assert result.exit_code == 0, result.output
    assert [(each["algorithm"], each["seed"]) for each in summaries(tmp_path / "runs" / "grid")] == [
        *(("fedpub", 0), ("fedpub", 1)),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[sweep]\nseeds = 2", "[other]\nseeds = 2", "has no table [sweep]"),
        ("seeds = 2", "seeds = 0", "sweep.seeds=0: must be at least 1"),
        ("seeds = 2", "sedes = 2", "unknown key sweep.sedes=2; did you mean sweep.seeds?"),
        ("clients = [2, 3]", "clients = 2", "sweep.grid.clients=2: must be a list of values"),
        ("clients = [2, 3]", "clints = [2, 3]", "unknown key clints=2; did you mean clients?"),
        ("clients = [2, 3]", "clients = [2, 0]", "clients=0: must be greater than or equal to 1"),
        ('"local", ', '"lcoal", ', "algorithm=lcoal is not known; did you mean local?"),
        ("tau=10", "tua=10", "unknown key algorithm.tua=10; did you mean algorithm.tau?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(sweep, tmp_path, old, new, message):
    assert old in SWEEP
    text = SWEEP.replace(old, new)
    result = sweep(text=text.replace("[sweep.grid]", "[a]").replace("[sweep.method", "[b") if "other" in new else text)
    assert result.exit_code == 2
    assert message in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["grid.toml"]


def test_a_grid_without_end_is_refused_before_it_is_listed(sweep):
    result = sweep("--dry-run", text=SWEEP.replace("seeds = 2", "seeds = 10000000"))
    assert result.exit_code == 2
    assert result.output == "Error: sweep.seeds=10000000 makes a grid of 40,000,000 runs; choose at most 100,000 runs\n"
