"""Every random draw of a run comes from a named stream, so that it never depends on who asks first."""

import hashlib


def seed_for(*parts: int | str) -> int:
    """Return the 63-bit seed of the stream that `parts` name, e.g. ``seed_for(run_seed, "train", round, client)``."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
