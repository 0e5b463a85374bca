"""docs/outputs.md, the schema in the code and the files that runs write are one and the same."""

import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from fedgraph_sim import run
from fedgraph_sim.engine.schema import METRIC, TABLES, VERSION, column_of, markdown, type_name

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "outputs.md"
SMALL = {"dataset.num_nodes": 300, "clients": 3, "rounds": 2, "algorithm.hidden": 8}
SERIES = {"dataset": "diffusion", "dataset.num_roads": 2, "dataset.road_length": 2, "dataset.num_junctions": 1}
SERIES |= {"dataset.length": 200, "algorithm": "fedgru", "algorithm.hidden": 4, "rounds": 1}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs that measure different things: masks, links, a global model, which asks no client, and forecasts."""
    out = tmp_path_factory.mktemp("outputs")
    kinds = {
        "masks": {"algorithm": "fedpub"},
        "links": {"algorithm": "local", "algorithm.task": "link"},
        "global": {"algorithm": "fedavg", "evaluation.protocol": "global", "evaluation.every": 2},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDGRAPH_CACHE", str(out / "cache"))
        for name, changes in kinds.items():
            run(changes={**changes, **SMALL}, name=name, out=out, inline=True, progress=False)
        run(changes=SERIES, name="series", out=out, inline=True, progress=False)
    return [out / name for name in (*kinds, "series")]


def test_the_document_shows_every_column():
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in TABLES:
        section = text.split(f"## `{name}.parquet`")[1].split("\n## ")[0]
        assert re.findall(r"^\|.*$", section, re.MULTILINE) == list(markdown(name))
    assert f"Schema version {VERSION}:" in text


def test_every_file_has_the_columns_of_the_document(folders):
    written = set()
    for folder in folders:
        for path in folder.glob("*.parquet"):
            schema = pq.read_schema(path)
            written.add(path.stem)
            assert schema.metadata[b"fedgraph_sim.schema"] == str(VERSION).encode()
            assert schema.metadata[b"fedgraph_sim.table"] == path.stem.encode()
            fixed = [column.name for column in TABLES[path.stem] if METRIC not in column.name]
            assert [name for name in schema.names if name in fixed] == fixed
            for field in schema:
                column = column_of(path.stem, field.name)
                assert (type_name(field.type), field.metadata[b"unit"].decode()) == (column.type, column.unit), field
    assert written == set(TABLES)


def test_one_line_of_pandas_reads_each(folders):
    for folder in folders:
        for path in folder.glob("*.parquet"):
            assert len(pd.read_parquet(path))


def test_metrics_of_the_algorithm_and_of_the_parts_are_told_apart(folders):
    names = pd.read_parquet(folders[0] / "rounds.parquet").columns
    measured = [name for name in names if column_of("rounds", name).name == METRIC]
    parts = [f"{part}_{metric}" for part in ("train", "val", "test") for metric in ("loss", "accuracy")]
    assert measured == [*parts, "conv1_sparsity", "conv2_sparsity", "head_sparsity"]


def test_files_that_the_document_names_are_there(folders):
    text = DOCUMENT.read_text(encoding="utf-8").split("## Other files")[1]
    named = set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)) - {"checkpoints/", "report.html"}
    assert [name for name in named if not any(list(folder.glob(name)) for folder in folders)] == []
