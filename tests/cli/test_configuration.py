import os
import urllib.request

import pytest

from fedgraph_sim.configuration import load_config
from fedgraph_sim.errors import ConfigError

TOML = """
rounds = 2

[dataset]
nam = "csbm"
"""


def refused(invoke, tmp_path, *arguments):
    """Run what must be refused; return the one sentence."""
    before = set(tmp_path.iterdir())
    result = invoke("run", "--inline", *arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert set(tmp_path.iterdir()) == before, "something was written"
    *usage, sentence = result.output.strip().splitlines()
    assert all(line.startswith(("Usage:", "Try ")) or not line for line in usage), result.output
    return sentence


def set_options(*assignments):
    return [part for assignment in assignments for part in ("--set", assignment)]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rounds=abc", "rounds=abc: must be a valid integer"),
        ("rounds=0", "rounds=0: must be greater than or equal to 1"),
        ("clients=2.5", "clients=2.5: must be a valid integer"),
        ("clients=true", "clients=True: must be a valid integer"),
        ("fraction=0", "fraction=0: must be greater than 0"),
        ("fraction=1.1", "fraction=1.1: must be less than or equal to 1"),
        ("seed=-1", "seed=-1: must be greater than or equal to 0"),
        ('algorithm.lr="fast"', "algorithm.lr=fast: must be a valid number"),
        ("algorithm.task=edge", "algorithm.task=edge: must be 'node' or 'link'"),
        ("algorithm.hidden=100000000000000000000000", "algorithm.hidden=1000000"),
        ("algorithm.weight_decay=1e308", "algorithm.weight_decay=1e+308: must be at most 1e+30"),
        (
            "algorithm.proxy_blocks=10000",
            "proxy_block_size is 1000000; lower them to at most 10000",
        ),
        ("system.bandwidth_up=1e-300", "system.bandwidth_up=1e-300: must be 0, or at least 1e-6"),
        ("algorithm.lr=0", "algorithm.lr=0: must be greater than 0"),
        ("algorithm.model=gat", "algorithm.model=gat: must be 'gcn', 'sage' or 'mlp'"),
        ("dataset.largest_component=1", "dataset.largest_component=1: must be a valid boolean"),
        ("dataset.degree=1000", "dataset: degree=1000 is too high for communities of 200 nodes; lower it"),
        ("engine.gpus_per_client=1.5", "engine.gpus_per_client=1.5: a share above 1 must be whole; use 1 or 2"),
        ("engine.gpus_per_client=half", "engine.gpus_per_client=half: must be a valid number or 'auto'"),
        ("engine.clients_per_actor=0", 'engine.clients_per_actor=0: must be at least 1, or "auto"'),
        ("split.train=0.9", "split: train + val + test is 1.7; lower them to at most 1"),
        ("split.link_val=0.95", "split: link_val + link_test is 1.05; lower them to below 1"),
        (
            "split.kind=own",
            "split.kind='own' but the data set marks no labelled node for training; use split.kind='ratio'",
        ),
        ("evaluation.protocol=best", "evaluation.protocol=best: must be 'local-mean', 'local-weighted' or 'global'"),
        ("round=3", "unknown key round=3; did you mean rounds?"),
        ("engine.gpu_per_client=1", "unknown key engine.gpu_per_client=1; did you mean engine.gpus_per_client?"),
        ("algorithm.xx=1", "unknown key algorithm.xx=1; known are name, task, model, "),
        ("algorithm=fedavgg", "algorithm=fedavgg is not known; did you mean fedavg?"),
        ("dataset.name=5", "dataset=5 is not known; known are csbm,"),
        ("partition=metiss", "partition=metiss is not known; did you mean metis?"),
        ("engine=3", "engine=3: must be a table; write [engine] and its keys below"),
        ("engine.checkpoint_every.x=1", "engine.checkpoint_every: must be a valid integer"),
        ("rounds", "--set rounds: write key=value, such as --set algorithm.lr=0.1"),
        ("=3", "--set =3: write key=value, such as --set algorithm.lr=0.1"),
        ("clients=100000", "clients=100000 but the graph has 2000 nodes; set clients to a number from 1 to 2000"),
    ],
)
def test_bad_values_are_named(invoke, tmp_path, assignment, message):
    assert message in refused(invoke, tmp_path, "--set", assignment)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clients", "0"], "clients=0: must be greater than or equal to 1"),
        (["--clients", "-3"], "clients=-3: must be greater than or equal to 0"),
        (["--rounds", "-1"], "rounds=-1: must be greater than or equal to 1"),
        (["--rounds", "abc"], "'abc' is not a valid integer"),
        (["--algorithm", "fedporx"], "algorithm=fedporx is not known; did you mean fedprox?"),
        (["--dataset", "Coar"], "dataset=Coar is not known; did you mean Cora?"),
        (["--partition", "lovain"], "partition=lovain is not known; did you mean louvain?"),
        (["--seed", "1", *set_options("seed.x=3")], "seed.x=3: seed is a value, not a table"),
        (["--dataset", "folder"], "dataset.path must be given: --set dataset.path=VALUE"),
        (["--dataset", "folder", *set_options("dataset.path=away")], "nodes.parquet cannot be read"),
        (["--algorithm", "fedpub", *set_options("evaluation.protocol=global")], "which fedpub has not; use local-mean"),
        (["--partition", "column"], "the data set has no client column"),
        (["missing.toml"], "'missing.toml' does not exist"),
        (["."], "is a directory"),
        (["--fraction", "0.5"], "No such option"),
    ],
)
def test_bad_options_are_named(invoke, tmp_path, options, message):
    assert message in refused(invoke, tmp_path, *options)


def test_a_file_that_is_no_toml_is_named_with_its_line(invoke, tmp_path):
    (tmp_path / "bad.toml").write_text("rounds = 3\nclients = = 2\n")
    sentence = refused(invoke, tmp_path, "bad.toml")
    assert "bad.toml is not valid TOML" in sentence
    assert "line 2" in sentence


def test_a_file_that_is_no_text(invoke, tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    assert "cannot read bad.toml" in refused(invoke, tmp_path, "bad.toml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(invoke, tmp_path):
    (tmp_path / "secret.toml").touch(mode=0)
    assert "secret.toml" in refused(invoke, tmp_path, "secret.toml")


def test_an_unknown_key_in_a_file(invoke, tmp_path):
    (tmp_path / "config.toml").write_text(TOML)
    assert "unknown key dataset.nam=csbm; did you mean dataset.name?" in refused(invoke, tmp_path, "config.toml")


def test_a_dataset_without_files_and_network(invoke, tmp_path, monkeypatch):
    def offline(url, timeout):
        raise OSError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    (tmp_path / "empty").mkdir()
    sentence = refused(invoke, tmp_path, "--dataset", "Cora", "--data-dir", "empty")
    for part in ("ind.cora.x", str(tmp_path / "empty"), "no network", "--data-dir or FEDGRAPH_DATA"):
        assert part in sentence


def test_a_graph_without_training_nodes(invoke, tmp_path, own_graph):
    options = own_graph(["val", "val", "test", "test"])
    assert "the data set marks no labelled node for training" in refused(invoke, tmp_path, *options)


def test_a_round_in_which_nobody_has_training_nodes(invoke, tmp_path, own_graph):
    options = own_graph(["train", "train", "test", "test"])
    sentence = refused(invoke, tmp_path, *options, *set_options("fraction=0.5"))
    assert "fraction=0.5 samples only clients without training nodes in round " in sentence
    assert "raise fraction, raise split.train, or change the seed" in sentence


def test_no_training_links(invoke, tmp_path, own_graph):
    options = own_graph(["train", "train", "test", "test"])  # both clients are complete graphs: one link, nothing else
    sentence = refused(invoke, tmp_path, *options, *set_options("algorithm.task=link"))
    assert "no client has a training link; lower split.link_val or split.link_test" in sentence


def test_a_file_in_the_way_of_the_output(invoke, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file; choose another folder" in refused(invoke, tmp_path, "--out", "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_folder_without_permission(invoke, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "no permission" in refused(invoke, tmp_path, "--out", "locked")


def test_a_run_folder_that_exists(invoke, tmp_path, run_small):
    run_small()
    options = ("--name", "small", "--rounds", "1", *set_options("dataset.num_nodes=300"))
    assert "exists; choose another --name or --out, or replace it with --force" in refused(invoke, tmp_path, *options)
    assert run_small("--force", "--rounds", "1")["rounds"] == 1


def test_force_spares_what_is_no_run_folder(invoke, tmp_path):
    (tmp_path / "runs" / "thesis").mkdir(parents=True)
    sentence = refused(invoke, tmp_path, "--name", "thesis", "--force")
    assert "is not a run folder" in sentence
    assert (tmp_path / "runs" / "thesis").is_dir()


def test_a_baseline_runs_from_the_file_of_a_method(tmp_path):
    file = tmp_path / "experiment.toml"
    file.write_text('[algorithm]\nname = "fedprox"\nmu = 0.5\nhidden = 7\n')
    config = load_config(file, {"algorithm": "local"}, ())
    assert (config.algorithm.name, config.algorithm.hidden) == ("local", 7)
    assert load_config(file, {"algorithm": None}, ()).algorithm.mu == 0.5


def test_a_key_without_its_table_is_pointed_to_it():
    with pytest.raises(ConfigError, match=r"unknown key lr=0\.1; did you mean algorithm\.lr\?"):
        load_config(None, {}, ("lr=0.1",))


def test_a_graph_beyond_the_memory_is_named(invoke):
    graph = set_options("dataset.num_nodes=10000000", "dataset.num_features=100000")
    result = invoke("partition", *graph)
    assert result.exit_code == 1
    assert result.output.startswith("Error: the memory does not suffice (Unable to allocate 7.28 TiB")
