import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from scipy import sparse

from fedgraph_sim.datasets.diffusion import Diffusion
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.series_split import ChronologicalSplit
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.engine.algorithm import Algorithm
from fedgraph_sim.engine.client_data import client_data
from fedgraph_sim.engine.cohort import InlineCohort
from fedgraph_sim.engine.federation import Federation, Task
from fedgraph_sim.engine.host import ClientHost
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.tree import Tree

# As in a host: the graphs are small, and threads that wait for each other cost far more than they save.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real raw data files."""
    named = os.environ.get("FEDGRAPH_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set FEDGRAPH_TEST_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., Graph]:
    """Build a graph from its directed entries; node i has the feature row (i, 1), classes alternate."""

    def make(num_nodes: int, entries: Sequence[tuple[int, int]], *, both_ways: bool = False, **fields: Any) -> Graph:
        edge_index = np.array(entries, dtype=np.int64).reshape(-1, 2).T
        if both_ways:
            edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)
        defaults: dict[str, Any] = {
            "x": np.stack([np.arange(num_nodes), np.ones(num_nodes)], axis=1).astype(np.float32),
            "edge_index": edge_index,
            "edge_weight": None,
            "y": np.arange(num_nodes) % 2,
            "role": np.ones(num_nodes, dtype=np.int8),
            "node_id": np.arange(num_nodes),
            "num_classes": 2,
        }
        return Graph(**{**defaults, **fields})

    return make


@pytest.fixture(scope="session")
def path_graphs(make_graph: Callable[..., Graph]) -> list[Graph]:
    """Two clients: a path of 4 nodes and one of 3; the last node of each is for test, the one before for validation."""
    return [
        make_graph(4, [(0, 1), (1, 2), (2, 3)], both_ways=True, role=np.array([1, 1, 2, 3], np.int8)),
        make_graph(3, [(0, 1), (1, 2)], both_ways=True, role=np.array([1, 2, 3], np.int8)),
    ]


@pytest.fixture(scope="session")
def make_host() -> Callable[..., ClientHost]:
    """Build a host of clients 0, 1, ... with the given graphs or series."""

    def make(algorithm: Algorithm, parts: Sequence[Any], *, batched: bool = False) -> ClientHost:
        links = Split().links(seed=0) if algorithm.predicts_links else None
        data = {client: client_data(part, torch.device("cpu"), links) for client, part in enumerate(parts)}
        return ClientHost(algorithm, data, batched=batched)

    return make


@pytest.fixture(scope="session")
def make_federation(make_host: Callable[..., ClientHost]) -> Callable[..., Federation]:
    """Build a federation whose clients, with the given graphs, live in this process; nobody is linked by default."""

    def make(
        algorithm: Algorithm,
        graphs: Sequence[Graph],
        *,
        seed: int = 0,
        fraction: float = 1.0,
        batched: bool = False,
        client_graph: sparse.csr_array | None = None,
    ) -> Federation:
        links = sparse.csr_array((len(graphs), len(graphs))) if client_graph is None else client_graph
        task = Task(num_features=graphs[0].num_features, num_classes=graphs[0].num_classes, client_graph=links)
        return Federation(
            InlineCohort((range(len(graphs)),), (make_host(algorithm, graphs, batched=batched),)),
            num_clients=len(graphs),
            task=task,
            seed=seed,
            fraction=fraction,
            ledger=Ledger(),
        )

    return make


@pytest.fixture(scope="session")
def make_series() -> Callable[..., SensorSeries]:
    """Build series of travelling waves with windows; `split` and further options are those of the two classes."""

    def make(*, split: Mapping[str, Any] | None = None, **options: Any) -> SensorSeries:
        defaults = {"num_roads": 2, "road_length": 2, "num_junctions": 1, "length": 60, "history": 4, "horizon": 3}
        series = Diffusion(**{**defaults, **options}).load(None, Path())
        return ChronologicalSplit(**(split or {})).apply(series, 0)

    return make


@pytest.fixture(scope="session")
def make_sensors(make_host: Callable[..., ClientHost]) -> Callable[..., Federation]:
    """Build a federation with a client for each sensor of a series, or with one that holds all where data is pooled."""

    def make(
        algorithm: Algorithm, series: SensorSeries, *, seed: int = 0, fraction: float = 1.0, batched: bool = True
    ) -> Federation:
        nodes = (
            [np.arange(series.num_nodes)] if algorithm.pooled else [np.array([at]) for at in range(series.num_nodes)]
        )
        host = make_host(algorithm, [series.part(part) for part in nodes], batched=batched)
        return Federation(
            InlineCohort((range(len(nodes)),), (host,)),
            num_clients=len(nodes),
            task=Task(num_features=2, num_classes=1, client_graph=series.adjacency),
            seed=seed,
            fraction=fraction,
            ledger=Ledger(),
        )

    return make


@pytest.fixture(scope="session")
def train() -> Callable[..., Tree]:
    """Run the set-up and some rounds, and return the server's state."""

    def run(algorithm: Algorithm, fed: Federation, rounds: int) -> Tree:
        server = algorithm.setup(fed)
        for number in range(1, rounds + 1):
            fed.begin(round=number, kind="train")
            server = algorithm.round(fed, server)
        fed.settle()
        return server

    return run


@pytest.fixture(scope="session")
def end_tree() -> Callable[[psutil.Process], None]:
    """End a process and all below it, of which some may end by themselves meanwhile."""

    def end(process: psutil.Process) -> None:
        tree = [process]
        with suppress(psutil.NoSuchProcess):
            tree += process.children(recursive=True)
        for each in tree:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        _, alive = psutil.wait_procs(tree, timeout=30)
        assert not alive

    return end
