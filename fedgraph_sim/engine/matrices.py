"""Numbers for pairs of clients: what an algorithm records of a round, and what the partition says of itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedgraph_sim.datasets.storage import StoreInfo

MISSING_EDGES = "missing_edges"
"""Name of the matrix of edges that no client holds, by the clients of their ends."""
IMAGE_SIZE = 256
"""Pixels that an image has at least along its longer side."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientMatrix:
    """A number for each pair of some clients: `values` [num_clients, num_clients] in the order of `clients`."""

    name: str
    round: int
    clients: tuple[int, ...]
    values: NDArray[np.float32]

    def rows(self) -> pa.Table:
        """Return one row per pair: round, name, row, column, value."""
        numbers = np.array(self.clients, np.int32)
        count = len(numbers)
        names = pa.DictionaryArray.from_arrays(np.zeros(count * count, np.int32), [self.name])
        return pa.table(
            {
                "round": np.full(count * count, self.round, np.int32),
                "name": names,
                "row": np.repeat(numbers, count),
                "column": np.tile(numbers, count),
                "value": self.values.ravel(),
            }
        )


def shades(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return a matrix as an image in shades of grey, the smallest value black and the largest white."""
    low, high = values.min(), values.max()
    scaled = (values - low) * (255 / max(high - low, 1e-12))
    pixels = -(-IMAGE_SIZE // max(values.shape))
    return np.kron(scaled, np.ones((pixels, pixels))).astype(np.uint8)


def partition_matrices(info: StoreInfo) -> Sequence[ClientMatrix]:
    """Return what the partition says of pairs of clients."""
    clients = tuple(range(info.num_clients))
    return [
        ClientMatrix(name=name, round=0, clients=clients, values=matrix.astype(np.float32))
        for name, matrix in info.matrices.items()
    ]
