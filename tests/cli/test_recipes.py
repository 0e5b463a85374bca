import json
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.cli.paper import load_paper
from fedgraph_sim.configuration import load_config
from fedgraph_sim.recipes import FOLDER, all_papers, all_recipes, recipe, summary

REPOSITORY = Path(__file__).resolve().parents[2]
FEDPUB = [name for name in all_recipes() if name.startswith("fedpub-")]
AS_WRITTEN = {"lr": (0.01, 0.001), "l1": (0.0, 1e-3), "prox": (0.0, 1e-3), "proxy_p_out": (0.0, 0.01)}
"""What the paper changes of the public code."""


@pytest.mark.parametrize("name", FEDPUB)
def test_a_recipe_of_fedpub_is_what_its_name_says_and_else_as_all_others(name):
    _, dataset, kind, clients, *variant = name.split("-")
    config = load_config(recipe(name), {}, ())
    assert config.dataset.name.lower() == dataset
    assert config.partition.name == {"disjoint": "metis", "overlap": "overlap"}[kind]
    assert str(config.clients) == clients
    assert config.algorithm.tau == {"disjoint": 3, "overlap": 5}[kind]
    for key, values in AS_WRITTEN.items():
        assert getattr(config.algorithm, key) == values[variant == ["paper"]]
    first = load_config(recipe(FEDPUB[0]), {}, ())
    varies = dict.fromkeys(("tau", *AS_WRITTEN))
    assert config.algorithm.model_copy(update=varies) == first.algorithm.model_copy(update=varies)
    assert config.dataset.model_copy(update={"name": None}) == first.dataset.model_copy(update={"name": None})
    same = ("rounds", "fraction", "seed", "data_seed", "split", "engine", "evaluation")
    assert [getattr(config, key) for key in same] == [getattr(first, key) for key in same]


def test_the_recipes_of_fedpub_are_complete():
    sizes = {"disjoint": (5, 10, 20), "overlap": (10, 30, 50)}
    names = {f"{d}-{kind}-{n}" for d in ("cora", "citeseer", "pubmed") for kind in sizes for n in sizes[kind]}
    assert set(FEDPUB) == {f"fedpub-{name}{variant}" for name in names for variant in ("", "-paper")}


FEDSAGE = [name for name in all_recipes() if name.startswith("fedsage-")]
IN_THE_PAPER = {
    "hidden": (32, 64),
    "normalize": (True, False),
    "batch_size": (32, 64),
    "targets": ("last", "true-min"),
    "generator_batch": (0, 64),
}


@pytest.mark.parametrize("name", FEDSAGE)
def test_a_recipe_of_fedsage_is_what_its_name_says(name):
    *plus, dataset, kind, clients = name.removeprefix("fedsage-").removesuffix("-paper").split("-")
    is_paper = name.endswith("-paper")
    config = load_config(recipe(name), {}, ())
    assert config.algorithm.name == ("fedsage_plus" if plus == ["plus"] else "fedsage")
    assert config.dataset.name.lower() == dataset
    assert (config.partition.name, str(config.clients)) == (kind, clients)
    assert config.rounds == 50
    assert (config.split.train, config.split.test) == (0.6 if is_paper else 0.5, 0.2)
    assert config.evaluation.protocol == "global"
    for key, values in IN_THE_PAPER.items():
        assert getattr(config.algorithm, key, values[is_paper]) == values[is_paper]
    if plus:
        without = load_config(recipe(name.replace("-plus", "")), {}, ())
        assert load_config(recipe(name), {"algorithm": "fedsage"}, ()) == without
        num_features = {"cora": 1433, "citeseer": 3703, "pubmed": 500}[dataset]
        expected = 1 if is_paper else 1 / (config.algorithm.num_pred * num_features)
        assert config.algorithm.lambda_f == pytest.approx(expected, rel=0.01)


def test_the_recipes_of_fedsage_are_complete():
    names = {f"{d}-louvain-{n}" for d in ("cora", "citeseer", "pubmed") for n in (3, 5, 10)}
    kinds = [(plus, variant) for plus in ("", "plus-") for variant in ("", "-paper")]
    assert set(FEDSAGE) == {f"fedsage-{plus}{name}{variant}" for name in names for plus, variant in kinds}


def test_every_recipe_states_what_decides_its_results():
    for path in all_recipes().values():
        raw = tomllib.loads(path.read_text())
        known = ALGORITHMS[raw["algorithm"]["name"]].model_fields
        assert raw.keys() >= {"clients", "rounds", "algorithm", "dataset", "split", "partition", "evaluation"}
        decisive = {"lr", "hidden", "dropout", "weight_decay", "local_epochs", "masked_loss"} & known.keys()
        assert raw["algorithm"].keys() >= decisive


def test_recipes_are_listed_by_paper_with_their_first_line(invoke):
    lines = invoke("recipes").output.splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [load_paper(name).title for name in all_papers()]
    listed = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert [(name, text.strip()) for name, text in listed] == [(k, summary(path)) for k, path in all_recipes().items()]
    numbers = [name for name, _ in listed if name.startswith("fedpub-cora-disjoint") and name[-1].isdigit()]
    assert numbers == [f"fedpub-cora-disjoint-{number}" for number in (5, 10, 20)]


def test_a_recipe_is_printed_as_it_is(invoke, tmp_path):
    text = invoke("recipes", "FEDPUB-Cora-disjoint-5").output
    assert text == recipe("fedpub-cora-disjoint-5").read_text()
    (tmp_path / "own.toml").write_text(text)
    assert load_config(tmp_path / "own.toml", {}, ()) == load_config(recipe("fedpub-cora-disjoint-5"), {}, ())


@pytest.mark.parametrize(
    "command", [("recipes", "fedpub-cora-disjont-5"), ("run", "recipe:fedpub-cora-disjont-5"), ("reproduce", "fedpup")]
)
def test_an_unknown_name_is_answered_with_the_nearest(invoke, tmp_path, command):
    result = invoke(*command)
    assert result.exit_code == 2
    assert "is not known; did you mean fedpub" in result.output
    assert not list(tmp_path.iterdir())


def test_a_recipe_runs_and_partitions(invoke, tmp_path):
    synthetic = ("--set", "dataset.name=csbm", "--set", "dataset.num_nodes=300", "--clients", "3")
    name = "recipe:fedpub-cora-disjoint-5"
    result = invoke("run", name, *synthetic, "--rounds", "2", "--inline", "--name", "a")
    assert result.exit_code == 0, result.output
    config = load_config(tmp_path / "runs" / "a" / "config.toml", {}, ())
    assert (config.algorithm.name, config.clients, config.rounds) == ("fedpub", 3, 2)
    result = invoke("partition", name, *synthetic)
    assert result.exit_code == 0, result.output
    assert "3 clients by metis" in result.stdout


@pytest.mark.parametrize("name", all_papers())
def test_a_papers_file_names_what_there_is(name):
    paper = load_paper(name)
    assert all(path.parent.name == name for path in map(recipe, paper.recipes))
    assert all(recipe(setting + method.variant) for method in paper.method.values() for setting in paper.recipes)
    assert set(paper.methods) <= {*ALGORITHMS, *paper.method}
    for table in paper.published:
        assert set(table.recipes) <= set(paper.recipes)
        assert all(len(row) == len(table.recipes) for row in table.figures.values())
        assert all(len(figure) <= 2 for row in table.figures.values() for figure in row)


def test_every_file_goes_into_the_wheel():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["fedgraph_sim"]
    packed = {path for pattern in patterns for path in FOLDER.parent.glob(pattern)}
    assert {*all_recipes().values(), *all_papers().values()} <= packed


GFL = [name for name in all_recipes() if name.startswith("gfl-appnp-")]
PASSES = {"dnc": 3000, "snc": 5000, "sc": 2000, "subcora": 4000}
"""Passes over a client's samples in a whole run, however many of them make a round."""


def test_the_recipes_of_gfl_appnp_are_complete():
    names = {f"{task}{variant}" for task in PASSES for variant in ("", "-i1", "-i20", "-i50")} | {"cora-2708"}
    assert set(GFL) == {f"gfl-appnp-{name}" for name in names}


@pytest.mark.parametrize("name", [name for name in GFL if not name.endswith("2708")])
def test_a_recipe_of_gfl_appnp_is_what_its_name_says(name):
    task, *variant = name.removeprefix("gfl-appnp-").split("-")
    config = load_config(recipe(name), {}, ())
    assert config.algorithm.local_epochs == int(variant[0][1:]) if variant else 10
    assert config.rounds * config.algorithm.local_epochs == PASSES[task]
    assert config.dataset.name == {"subcora": "subcora"}.get(task, f"csbm-{task}")
    assert config.clients == config.dataset.num_nodes
    base = load_config(recipe(f"gfl-appnp-{task}"), {}, ())
    same = ("clients", "dataset", "split", "partition", "seed", "fraction", "engine")
    assert [getattr(config, key) for key in same] == [getattr(base, key) for key in same]
    varies = {"local_epochs": None, "lr": None}
    assert config.algorithm.model_copy(update=varies) == base.algorithm.model_copy(update=varies)


def test_a_federation_of_nodes_runs_from_its_recipe(invoke, tmp_path):
    small = ("--set", "dataset.num_nodes=60", "--clients", "60", "--rounds", "2", "--inline")
    result = invoke("run", "recipe:gfl-appnp-dnc", *small, "--name", "a")
    assert result.exit_code == 0, result.output
    noise = [f"algorithm.{key}=1" for key in ("noise_hidden", "clip_hidden", "noise_jacobian", "clip_jacobian")]
    result = invoke("run", "recipe:gfl-appnp-dnc", *small, "--name", "b", *(f"--set={pair}" for pair in noise))
    assert "epsilon of shared representations" in result.stdout
    remarks = json.loads((tmp_path / "runs" / "b" / "summary.json").read_text())["remarks"]
    assert remarks["epsilon of shared representations"] > 10
    assert remarks["delta"] == 1e-5
    ledger = pq.read_table(tmp_path / "runs" / "a" / "ledger.parquet").to_pylist()
    model = 4 * (100 * 64 + 64 * 2)
    assert {row["bytes"] for row in ledger if row["step"] == "share_jacobian" and row["sender"] >= 0} == {8 + 2 * model}


def test_a_partition_by_nodes_needs_as_many_clients(invoke):
    result = invoke("run", "recipe:gfl-appnp-dnc", "--clients", "10", "--inline")
    assert result.exit_code == 2
    assert "partition.name='node' makes 200 clients but clients=10; set clients=200" in result.output
