"""Small runs of every algorithm, and two runs compared to the last bit."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.engine.checkpoint import latest_checkpoint

SIZES = {"hidden": 8, "generator_rounds": 2, "pretrain_epochs": 1, "graph_hidden": 8, "graph_out": 4}


def small(algorithm: str) -> tuple[str, ...]:
    """Return assignments that make a run of an algorithm quick: four clients on little data."""
    kind = ALGORITHMS[algorithm]
    data = ("clients=4", "dataset.num_nodes=300")
    if kind.kind is SERIES:
        data = ("dataset.num_roads=2", "dataset.road_length=2", "dataset.length=150", "dataset.history=3")
        data += ("dataset.horizon=3",)
    return data + tuple(f"algorithm.{key}={size}" for key, size in SIZES.items() if key in kind.model_fields)


def results(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, pa.Table]]:
    """Return the last checkpoint's tensors, and all tables without their times."""
    final = latest_checkpoint(folder / "checkpoints")
    assert final is not None
    weights = {"round": torch.tensor(int(final.name.removeprefix("round-")))}
    for file in final.glob("*.safetensors"):
        weights |= {f"{file.name}/{name}": leaf for name, leaf in load_file(file).items()}
    tables = {}
    for file in folder.glob("*.parquet"):
        table = pq.read_table(file)
        tables[file.name] = table.select([name for name in table.column_names if not name.startswith("seconds")])
    return weights, tables


def assert_same(first: Path, second: Path) -> None:
    """Compare weights and states bit by bit, and rounds, clients, matrices and ledger row by row."""
    (weights, tables), (other_weights, other_tables) = results(first), results(second)
    assert weights.keys() == other_weights.keys()
    assert all(torch.equal(leaf, other_weights[name]) for name, leaf in weights.items())
    assert tables.keys() == other_tables.keys()
    for name, table in tables.items():
        assert table.equals(other_tables[name]), name
