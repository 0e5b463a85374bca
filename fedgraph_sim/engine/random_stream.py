"""Random bits as a pure function of a key and a position, so that a client's draws do not depend on its neighbours.

A client's stream is the same in a loop, under ``torch.vmap``, on any number of actors and on any device: nothing is
drawn from a shared generator. The bits come from a 32-bit integer hash (two multiply-xorshift rounds, with the second
half of the key mixed in between), which is ample for dropout and initialisation and not meant for cryptography.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15


def client_keys(seed: int, clients: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one 63-bit key per client number (splitmix64 of `seed` and the number); both vectors are [num_clients]."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (clients.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word


def _shift(x: Tensor, by: int) -> Tensor:
    """Shift right without copying the sign bit, which torch's own shift does."""
    return (x >> by) & ((1 << (32 - by)) - 1)


@dataclass(frozen=True)
class RandomStream:
    """One client's stream for one call; `key` is int64 without dimensions, also under ``torch.vmap``."""

    key: Tensor

    def fold(self, number: int) -> "RandomStream":
        """Return the independent stream `number` of this one (say, one per local epoch and layer)."""
        key = (self.key ^ ((number + 1) * 0x5851F42D4C957F2D % (1 << 62))) * 0x2545F4914F6CDD1D
        return RandomStream((key ^ (key >> 29)) & ((1 << 62) - 1))

    def bits(self, count: int) -> Tensor:
        """Return [count] int32 of uniformly random bits."""
        low = (self.key & 0x7FFFFFFF).to(torch.int32)
        high = (self.key >> 31).to(torch.int32)
        x = torch.arange(count, dtype=torch.int32, device=self.key.device) ^ low
        x = (x ^ _shift(x, 16)) * 0x7FEB352D
        x = (x ^ _shift(x, 15) ^ high) * _signed(0x846CA68B)
        return x ^ _shift(x, 16)

    def keep(self, shape: tuple[int, ...], probability: float) -> Tensor:
        """Return a boolean mask of `shape`, each entry True with `probability` in (0, 1], in steps of 2^-16."""
        count = prod(shape)
        halves = self.bits((count + 1) // 2).view(torch.int16)[:count]
        return (halves <= round(probability * 65536) - 32769).reshape(shape)

    def generator(self) -> torch.Generator:
        """Return a torch generator seeded by this stream, for draws outside batched steps."""
        return torch.Generator().manual_seed(int(self.key))
