import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from fedgraph_sim.cli.main import main


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for all tests, so that a partition is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def invoke(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDGRAPH_CACHE", str(cache))
    monkeypatch.delenv("FEDGRAPH_DATA", raising=False)
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


SMALL = ("--inline", "--set", "dataset.num_nodes=300", "--clients", "3", "--rounds", "3", "--name", "small")


@pytest.fixture
def run_small(invoke: Callable[..., Result], tmp_path: Path) -> Callable[..., Any]:
    """Run three rounds with three clients on 300 nodes, and further options; return the summary."""

    def run(*options: Any) -> Any:
        result = invoke("run", *SMALL, *options)
        assert result.exit_code == 0, result.output
        return json.loads((tmp_path / "runs" / "small" / "summary.json").read_text())

    return run


@pytest.fixture
def own_graph(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """Write a folder of 4 nodes on a path, clients a a b b, and return the options that run it with two clients."""

    def write(roles: list[str | None], labels: tuple[str, ...] = ("x", "y", "x", "y")) -> tuple[str, ...]:
        folder = tmp_path / "graph"
        folder.mkdir()
        nodes = {"id": [0, 1, 2, 3], "label": list(labels), "split": pa.array(roles, pa.string())}
        nodes |= {"features": [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], "client": ["a", "a", "b", "b"]}
        pq.write_table(pa.table(nodes), folder / "nodes.parquet")
        pq.write_table(pa.table({"source": [0, 1, 2], "target": [1, 2, 3]}), folder / "edges.parquet")
        settings = ("dataset.path=graph", "split.kind=own", "algorithm.hidden=4")
        pairs = [part for setting in settings for part in ("--set", setting)]
        return ("--dataset", "folder", "--partition", "column", "--clients", "2", *pairs)

    return write
