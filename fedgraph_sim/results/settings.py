"""What two runs have in common: their configurations, key by key."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedgraph_sim.results.run_folder import RunFolder

REPEATS = ("seed",)
"""Keys in which repeated runs of one setting differ."""
PLACEMENT = "engine."
"""Begin of the keys that say where a run was computed, not what."""

Setting = tuple[tuple[str, Any], ...]


def setting_of(run: RunFolder) -> Setting:
    """Return the keys and values that decide what a run computes, but not its seed."""
    return tuple(
        (key, value) for key, value in flat(run.config) if key not in REPEATS and not key.startswith(PLACEMENT)
    )


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted key, in sorted order; lists become tuples."""
    for key, value in sorted(table.items()):
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _hashable(value)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return tuple((key, _hashable(inner)) for key, inner in value.items()) if isinstance(value, Mapping) else value


def by_setting(runs: Sequence[RunFolder]) -> dict[Setting, list[RunFolder]]:
    """Return the runs of each setting, in the order in which the settings first occur."""
    groups: dict[Setting, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(setting_of(run), []).append(run)
    return groups


def differing_keys(settings: Sequence[Setting]) -> list[str]:
    """Return the keys that two settings have with different values; ``algorithm`` and the like are names."""
    tables = [dict(setting) for setting in settings]
    values: dict[str, set[Any]] = {}
    for table in tables:
        for key, value in table.items():
            values.setdefault(key, set()).add(value)
    keys = [key.removesuffix(".name") for key, different in values.items() if len(different) > 1]
    return sorted(keys, key=lambda key: (key != "algorithm", key != "dataset", key))


def telling_keys(settings: Sequence[Setting], keys: Sequence[str]) -> list[str]:
    """Return `keys` without those parameters of algorithms that tell no settings apart which the keys before do not."""
    kept: list[str] = []

    def groups(chosen: Sequence[str]) -> int:
        return len({tuple(value_of(setting, key) for key in chosen) for setting in settings})

    for key in keys:
        if not key.startswith("algorithm.") or groups([*kept, key]) > groups(kept):
            kept.append(key)
    return kept


def value_of(setting: Setting, key: str) -> str:
    """Return the value of a key as text, a table's being its name; empty where the setting has no such key."""
    table = dict(setting)
    value = table.get(key, table.get(f"{key}.name", ""))
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
