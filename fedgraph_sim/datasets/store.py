"""The partition store: a folder from which a client's subgraph is read without reading the others'.

nodes.parquet, edges.parquet: one row group per client, edges in local indices · whole_nodes.parquet,
whole_edges.parquet: the unsplit graph · client_graph.parquet: the links between clients · info.json: the figures of
the partition, written last.
"""

import hashlib
import inspect
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy import sparse

from fedgraph_sim import __version__
from fedgraph_sim.datasets.client_graph import client_graph
from fedgraph_sim.datasets.dataset import Dataset
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.parquet import GraphFile, read_matrix, write_graphs, write_matrix
from fedgraph_sim.datasets.partition_info import PartitionInfo, Survey
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.subgraph import induced_subgraphs
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.seeds import seed_for

__all__ = ["PartitionInfo", "PartitionStore", "prepare"]

VERSION = 2


class PartitionStore:
    """A partitioned graph on disk; reading a damaged one raises `ConfigError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def info(self) -> PartitionInfo:
        """Figures of the partition."""
        with self._reading():
            return TypeAdapter(PartitionInfo).validate_json((self.folder / "info.json").read_bytes())

    def load(self, clients: Sequence[int]) -> dict[int, Graph]:
        """Return the subgraphs of `clients`, reading only theirs."""
        with self._reading():
            file = self._open("nodes.parquet", "edges.parquet")
            return {client: _sized(file.read(client), self.info.nodes[client]) for client in clients}

    def whole(self) -> Graph:
        """Return the unsplit graph; a node that no client holds has no role."""
        with self._reading():
            return _sized(self._open("whole_nodes.parquet", "whole_edges.parquet").read(0), self.info.num_nodes)

    def client_graph(self) -> sparse.csr_array:
        """Return the weights of the links between clients [num_clients, num_clients], row = target."""
        with self._reading():
            return read_matrix(self.folder / "client_graph.parquet", self.info.num_clients)

    def is_complete(self) -> bool:
        """Tell whether all files are there and whole."""
        try:
            num_graphs = len(self._open("nodes.parquet", "edges.parquet"))
            num_wholes = len(self._open("whole_nodes.parquet", "whole_edges.parquet"))
            read_matrix(self.folder / "client_graph.parquet", self.info.num_clients)
            return num_graphs == self.info.num_clients and num_wholes == 1
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException):
            return False

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ConfigError:
            raise
        except Exception as error:  # garbage may fail in any way
            reason = " ".join(str(error).split())
            raise ConfigError(f"the partition store {self.folder} is damaged ({reason}); delete it") from error

    def _open(self, nodes: str, edges: str) -> GraphFile:
        shape = {"num_features": self.info.num_features, "num_classes": self.info.num_classes}
        return GraphFile(self.folder / nodes, self.folder / edges, **shape)

    @classmethod
    def create(
        cls, folder: Path, graph: Graph, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
    ) -> "PartitionStore":
        """Write the subgraphs that `members` induce to `folder` and return the store.

        Written beside `folder` and renamed, so that nobody sees half a store; of several processes that create the
        same store at once, the first wins and the others use its result. Raises `ConfigError` where it cannot write.
        """
        unfinished = folder.with_name(f".{folder.name}-{uuid4().hex}")
        try:
            unfinished.mkdir(parents=True)
            info = _write(unfinished, graph, members, dataset=dataset, partition=partition)
            (unfinished / "info.json").write_text(json.dumps(asdict(info)))
            _move(unfinished, folder)
        except OSError as error:
            raise ConfigError(
                f"the cache folder {folder.parent} cannot be written ({error}); make it writable, free space on its"
                " disk, or set FEDGRAPH_CACHE to another folder"
            ) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return cls(folder)


def prepare(
    dataset: Dataset,
    split: Split,
    partitioner: Partitioner,
    *,
    num_clients: int,
    seed: int,
    data_dir: Path | None,
    cache_dir: Path,
) -> tuple[PartitionStore, bool]:
    """Return the store of this partition, and whether it was there already.

    Raises `ConfigError` where the data set, the split or the partition is impossible.
    """
    dataset = dataset.seeded(seed_for(seed, "dataset"))
    nodes_split = split.model_dump_json(exclude={"link_val", "link_test"})  # a store says nothing about links' roles
    options = (nodes_split, partitioner.model_dump_json(), num_clients, seed, __version__, VERSION)
    own_code = _own_code(dataset) + _own_code(partitioner)
    text = repr((dataset.fingerprint(data_dir, cache_dir), *options, *own_code))
    key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    store = PartitionStore(cache_dir / "partitions" / key)
    if store.is_complete():
        return store, True
    graph = split.apply(dataset.load(data_dir, cache_dir), seed_for(seed, "split"))
    members = partitioner.assign(graph, num_clients, seed_for(seed, "partition"))
    names = {"dataset": dataset.name, "partition": partitioner.name}
    return PartitionStore.create(store.folder, graph, members, **names), False


def _own_code(model: Dataset | Partitioner) -> tuple[str, ...]:
    """Return the source of the module of a class that is not the package's: whoever edits it gets another store."""
    module = type(model).__module__
    if module.startswith("fedgraph_sim."):
        return ()
    try:
        return (inspect.getsource(sys.modules[module]),)
    except (OSError, TypeError):  # typed into an interpreter: nobody can tell whether it is as before
        return (uuid4().hex,)


def _write(
    folder: Path, graph: Graph, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
) -> PartitionInfo:
    survey = Survey(graph)

    def surveyed() -> Iterator[Graph]:
        for nodes, part in zip(members, induced_subgraphs(graph, members), strict=True):
            survey.add(nodes, part)
            yield part.graph

    write_graphs(folder / "nodes.parquet", folder / "edges.parquet", surveyed())
    write_graphs(
        folder / "whole_nodes.parquet", folder / "whole_edges.parquet", [_without_unheld_roles(graph, members)]
    )
    write_matrix(folder / "client_graph.parquet", client_graph(graph, members))
    return survey.finish(dataset=dataset, partition=partition)


def _without_unheld_roles(graph: Graph, members: Sequence[NDArray[np.int64]]) -> Graph:
    held = np.zeros(graph.num_nodes, dtype=bool)
    held[np.concatenate(members)] = True
    return replace(graph, role=np.where(held, graph.role, Role.NONE).astype(np.int8))


def _move(unfinished: Path, folder: Path) -> None:
    if folder.exists() and not PartitionStore(folder).is_complete():
        damaged = folder.with_name(f"{unfinished.name}-damaged")
        with suppress(FileNotFoundError):  # another process was faster
            folder.rename(damaged)
        shutil.rmtree(damaged, ignore_errors=True)
    try:
        unfinished.rename(folder)
    except OSError:  # another process was first
        if not PartitionStore(folder).is_complete():
            raise


def _sized(graph: Graph, num_nodes: int) -> Graph:
    if graph.num_nodes != num_nodes:
        raise ValueError(f"a graph of {num_nodes} nodes has {graph.num_nodes}")
    return graph
