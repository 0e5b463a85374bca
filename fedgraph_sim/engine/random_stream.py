"""Random bits as a pure function of a key and a position, so that a client's draws do not depend on its neighbours.

A client's stream is the same in a loop, under ``torch.vmap``, on any number of actors and on any device: nothing is
drawn from a shared generator. The bits come from a 32-bit integer hash (two multiply-xorshift rounds, with the second
half of the key mixed in between), which is ample for dropout and initialisation and not meant for cryptography.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


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

    def uniform(self, count: int) -> Tensor:
        """Return [count] float32, uniform in [0, 1), in steps of 2^-24."""
        return _shift(self.bits(count), 8).to(torch.float32) / 2**24

    def permutation(self, count: int) -> Tensor:
        """Return 0..count - 1 in random order [count]."""
        return self.bits(count).argsort(stable=True)

    def integers(self, count: int, high: Tensor) -> Tensor:
        """Return [count] int64, uniform in 0..high - 1; `high`, without dimensions or [count], is from 1 to 2^40.

        The remainder of 62 random bits: of two numbers one is at most 2^-22 more likely than the other.
        """
        words = self.bits(2 * count).reshape(count, 2).long()
        return ((words[:, 1] << 31 ^ words[:, 0]) & ((1 << 62) - 1)) % high

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """Return independent draws of N(0, 1) in float32, by the transform of Box and Muller (1958).

        No draw is farther than 6.6 from 0, which is that of one in 10^10.
        """
        words = self.bits(2 * prod(shape)).reshape(2, -1)
        uniform = (words.float() + 2.0**31 + 0.5) / 2.0**32
        radius = (-2 * uniform[0].clamp(max=1).log()).sqrt()
        return (radius * (2 * torch.pi * uniform[1]).cos()).reshape(shape)

    def generator(self) -> torch.Generator:
        """Return a torch generator seeded by this stream, for draws outside batched steps."""
        return torch.Generator().manual_seed(int(self.key))
