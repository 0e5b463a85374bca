"""The store of sensors' time series.

sensors.parquet: one row per sensor, one row group per client · shared.npz: time of day, windows and links, which a
client is not told of the others · info.json: figures, written last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy import sparse

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.partition_info import clients_by
from fedgraph_sim.datasets.series import ROLES, SensorSeries
from fedgraph_sim.datasets.storage import INFO_FILE, Counts, Store


@dataclass(frozen=True, kw_only=True)
class SeriesInfo:
    """Figures of divided time series; one entry per client in every tuple.

    `sensors`: how many a client holds; `train`, `val`, `test`: its windows, of all its sensors; `missing`: readings
    that are not there; `links`: directed links that reach one of its sensors, without those of a sensor to itself.
    """

    dataset: str
    partition: str
    num_clients: int
    num_nodes: int
    num_steps: int
    history: int
    horizon: int
    sensors: Counts
    train: Counts
    val: Counts
    test: Counts
    missing: Counts
    links: Counts

    @property
    def num_features(self) -> int:
        """A reading, and the time of day."""
        return 2

    @property
    def num_classes(self) -> int:
        """A reading is predicted at a time."""
        return 1

    @property
    def example(self) -> str:
        """What a training example is, in sentences."""
        return "window"

    @property
    def sizes(self) -> Counts:
        """Sensors of each client."""
        return self.sensors

    @property
    def summary(self) -> str:
        """The series in half a sentence."""
        missing = 100 * sum(self.missing) / max(self.num_nodes * self.num_steps, 1)
        return (
            f"{counted(self.num_nodes, 'sensor')}, {counted(sum(self.links), 'directed link')}, "
            f"{counted(self.num_steps, 'time step')}, "
            f"{missing:.1f} % of the readings missing"
        )

    @property
    def division(self) -> str:
        """The clients in half a sentence."""
        return clients_by(self.num_clients, self.partition)

    @property
    def columns(self) -> dict[str, Counts]:
        """Figures of each client, by heading."""
        names = ("sensors", "links", "train", "val", "test", "missing")
        return {name: getattr(self, name) for name in names}

    @property
    def notes(self) -> tuple[str, ...]:
        """All of it in two lines."""
        alone = sum(count == 0 for count in self.links)
        return (
            f"{self.dataset}, {self.summary}; {self.division}",
            f"windows: {self.history} + {self.horizon} steps ; clients that no link reaches: {alone}",
        )

    @property
    def matrices(self) -> dict[str, NDArray[np.float64]]:
        """Nothing about pairs of clients."""
        return {}


class SeriesStore(Store[SensorSeries]):
    """Time series on disk; reading damaged ones raises `ConfigError`."""

    @cached_property
    def info(self) -> SeriesInfo:
        """Figures of the division."""
        with self._reading():
            return TypeAdapter(SeriesInfo).validate_json((self.folder / INFO_FILE).read_bytes())

    def load(self, clients: Sequence[int]) -> dict[int, SensorSeries]:
        """Return the series of `clients`, reading only theirs."""
        with self._reading():
            file, shared = self._open(), self._shared
            return {client: self._read(file.read_row_group(client), shared) for client in clients}

    def whole(self) -> SensorSeries:
        """Return all series, in the order of the clients."""
        with self._reading():
            return self._read(self._open().read(), self._shared)

    def is_complete(self) -> bool:
        """Tell whether all files are there and whole."""
        try:
            return self._open().num_row_groups == self.info.num_clients and bool(self._shared)
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException):
            return False

    def client_graph(self) -> sparse.csr_array:
        """Return the weights of the links between clients, added up over their sensors."""
        with self._reading():
            owner = np.repeat(np.arange(self.info.num_clients), self.info.sensors)
            order = _flat(self._open().read(["node_id"])["node_id"])
            member = sparse.csr_array((np.ones(len(order)), (order, owner)), (len(order), self.info.num_clients))
            links = (member.T @ _adjacency(self._shared) @ member).tocsr()
            links.setdiag(0)
            links.eliminate_zeros()
            return links

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.folder / "sensors.parquet", page_checksum_verification=True)

    @property
    def _shared(self) -> dict[str, NDArray[Any]]:
        with np.load(self.folder / "shared.npz", allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def _read(self, table: pa.Table, shared: dict[str, NDArray[Any]]) -> SensorSeries:
        nodes = _flat(table["node_id"])
        shape = (table.num_rows, len(shared["time_of_day"]))
        return SensorSeries(
            values=_lists(table["values"]).reshape(shape).astype(np.float32),
            observed=_lists(table["observed"]).reshape(shape).astype(bool),
            time_of_day=shared["time_of_day"],
            adjacency=_adjacency(shared)[nodes][:, nodes].tocsr(),
            names=tuple(table["name"].to_pylist()),
            node_id=nodes,
            is_seen=_flat(table["is_seen"]).astype(bool),
            position=None,
            history=self.info.history,
            horizon=self.info.horizon,
            starts={role: shared[role] for role in ROLES},
        ).checked()

    @classmethod
    def create(
        cls, folder: Path, data: SensorSeries, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
    ) -> "SeriesStore":
        """Write the series of the sensors that each client has to `folder` and return the store."""
        return cls._written(folder, lambda path: _write(path, data, members, dataset=dataset, partition=partition))


def _write(
    folder: Path, data: SensorSeries, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
) -> SeriesInfo:
    links = data.adjacency.tocoo()
    np.savez(
        folder / "shared.npz",
        num_nodes=np.array(data.num_nodes),
        time_of_day=data.time_of_day,
        link_target=links.coords[0],
        link_source=links.coords[1],
        link_weight=links.data,
        **data.starts,  # type: ignore[arg-type]  # arrays by name
    )
    schema = pa.schema(
        {
            "node_id": pa.int64(),
            "name": pa.string(),
            "is_seen": pa.bool_(),
            "values": pa.list_(pa.float32()),
            "observed": pa.list_(pa.bool_()),
        }
    )
    with pq.ParquetWriter(folder / "sensors.parquet", schema, write_page_checksum=True) as writer:
        for nodes in members:
            part = data.part(nodes)
            rows = {
                "node_id": part.node_id,
                "name": list(part.names),
                "is_seen": part.is_seen,
                "values": list(part.values),
                "observed": list(part.observed),
            }
            writer.write_table(pa.Table.from_pydict(rows, schema), row_group_size=max(len(nodes), 1))
    between = links.coords[0] != links.coords[1]
    reached = np.bincount(links.coords[0][between], minlength=data.num_nodes)
    num_seen = np.array([int(data.is_seen[nodes].sum()) for nodes in members])
    sizes = tuple(len(nodes) for nodes in members)
    return SeriesInfo(
        dataset=dataset,
        partition=partition,
        num_clients=len(members),
        num_nodes=data.num_nodes,
        num_steps=data.num_steps,
        history=data.history,
        horizon=data.horizon,
        sensors=sizes,
        train=_counts(num_seen * len(data.starts["train"])),
        val=_counts(num_seen * len(data.starts["val"])),
        test=_counts(np.array(sizes) * len(data.starts["test"])),
        missing=tuple(int((~data.observed[nodes]).sum()) for nodes in members),
        links=tuple(int(reached[nodes].sum()) for nodes in members),
    )


def _counts(values: NDArray[np.int64]) -> Counts:
    return tuple(int(value) for value in values)


def _adjacency(shared: dict[str, NDArray[Any]]) -> sparse.csr_array:
    ends = (shared["link_target"], shared["link_source"])
    size = int(shared["num_nodes"])
    return sparse.coo_array((shared["link_weight"], ends), (size, size)).tocsr()


def _flat(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _lists(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False))
