"""Names that a user may write."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from fedgraph_sim.errors import ConfigError


def find(kind: str, name: Any, known: Iterable[str]) -> str:
    """Return the known name that equals `name`, upper or lower case; else a ConfigError with the nearest one."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    folded = str(name).lower()
    if folded in by_folded:
        return by_folded[folded]
    near = get_close_matches(folded, by_folded, n=1, cutoff=0.4)
    hint = f"did you mean {by_folded[near[0]]}?" if near else f"known are {', '.join(by_folded.values())}"
    raise ConfigError(f"{kind}={name} is not known; {hint}")
