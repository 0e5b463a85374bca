"""Every random draw of a run comes from a named stream, so that it never depends on who asks first."""

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15


def seed_for(*parts: int | str) -> int:
    """Return the 63-bit seed of the stream that `parts` name, e.g. ``seed_for(run_seed, "train", round, client)``."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def keys_for(seed: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one 63-bit key per number from 0 (splitmix64 of `seed` and the number), in the shape of `numbers`."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
