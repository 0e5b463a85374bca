import pytest

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS


def row(output, key):
    """Return the line of `key` without the spaces between its cells."""
    (line,) = (line for line in output.splitlines() if line.split()[:1] == [key])
    return " ".join(line.split())


@pytest.mark.parametrize(
    ("command", "classes"), [("algorithms", ALGORITHMS), ("datasets", DATASETS), ("partitioners", PARTITIONERS)]
)
def test_lists_name_everything_with_a_summary(invoke, command, classes):
    result = invoke(command)
    assert result.exit_code == 0
    lines = [line.split(maxsplit=1) for line in result.output.splitlines()]
    assert [name for name, _ in lines] == list(classes)
    assert [summary.strip() for _, summary in lines] == [model.summary for model in classes.values()]


@pytest.mark.parametrize(
    ("command", "classes"), [("algorithms", ALGORITHMS), ("datasets", DATASETS), ("partitioners", PARTITIONERS)]
)
def test_every_parameter_of_everything_is_shown(invoke, command, classes):
    kind = {"algorithms": "algorithm", "datasets": "dataset", "partitioners": "partition"}[command]
    for name, model in classes.items():
        output = invoke(command, name).output
        assert model.summary in output
        assert all(f"{kind}.{key} " in output for key in model.model_fields if key != "name")


def test_a_parameter_has_default_values_unit_and_meaning(invoke):
    output = invoke("datasets", "CSBM").output
    meaning = "nodes of the graph before the largest component is taken"
    assert row(output, "dataset.num_nodes") == f"dataset.num_nodes 2000 int >= 2 and <= 10,000,000 nodes {meaning}"
    output = invoke("algorithms", "fedavg").output
    assert row(output, "algorithm.dropout").startswith("algorithm.dropout 0.5 float >= 0 and < 1 ")
    assert row(output, "algorithm.model").startswith('algorithm.model "gcn" "gcn", "sage", "mlp" ')
    assert row(invoke("datasets", "folder").output, "dataset.path").startswith("dataset.path (required) ")


def test_the_format_of_own_graphs_is_shown(invoke):
    assert "edges.parquet: `source` and `target` (ids); optional `weight`" in invoke("datasets", "folder").output


def test_keys_lists_all_that_is_left(invoke):
    output = invoke("keys").output
    meaning = "number of clients; 0: one per sensor of time series"
    assert row(output, "clients") == f"clients 10 int >= 0 and <= 10,000,000 clients {meaning}"
    assert "e+" not in output
    assert row(output, "engine.gpus_per_client").startswith('engine.gpus_per_client "auto" float, "auto" GPUs ')
    assert "split.stratified " in output
    assert "split.stride " in output  # of time series
    for key in ("rounds", "fraction", "seed", "engine.checkpoint_every", "evaluation.protocol"):
        assert row(output, key)


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("algorithms", "fedavgg", "algorithm=fedavgg is not known; did you mean fedavg?"),
        ("datasets", "coraa", "dataset=coraa is not known; did you mean Cora?"),
        ("partitioners", "qqq", "partition=qqq is not known; known are metis, louvain"),
    ],
)
def test_unknown_names(invoke, command, name, message):
    result = invoke(command, name)
    assert result.exit_code == 2
    assert message in result.output
