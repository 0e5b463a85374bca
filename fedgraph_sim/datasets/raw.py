"""Raw files of published data sets: where they are looked for, and how they are fetched."""

import hashlib
import http.client
import os
import shutil
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraph_sim.errors import ConfigError

Arrays = dict[str, NDArray[Any]]

TIMEOUT_SECONDS = 5.0


def find(files: Sequence[str], places: Sequence[str], data_dir: Path | None, cache_dir: Path) -> Path | None:
    """Return the first folder that holds all `files`, or None.

    Looked at: each of `places` below `data_dir`, `data_dir`/pyg, `data_dir`/npz and `cache_dir`/raw.
    """
    for base in _bases(data_dir, cache_dir):
        for place in places:
            if all(os.path.isfile(base / place / file) for file in files):
                return base / place
    return None


def obtain(
    name: str, *, files: Sequence[str], places: Sequence[str], url: str, data_dir: Path | None, cache_dir: Path
) -> Path:
    """Return a folder with all `files`, downloading them from `url` to `cache_dir` where they are nowhere.

    Raises `ConfigError` with the files, the folders and the way out where neither works.
    """
    folder = find(files, places, data_dir, cache_dir)
    if folder is not None:
        return folder
    folder = cache_dir / "raw" / places[0]
    try:
        for file in files:
            _download(f"{url}/{file}", folder / file)
    except (OSError, http.client.HTTPException) as error:
        raise missing(name, files, places[0], data_dir, cache_dir, f"downloading {url} failed ({error})") from error
    return folder


def missing(
    name: str, files: Sequence[str], place: str, data_dir: Path | None, cache_dir: Path, reason: str
) -> ConfigError:
    """Return the error for raw files that are nowhere."""
    bases = ", ".join(str(base) for base in _bases(data_dir, cache_dir))
    return ConfigError(
        f"dataset.name={name!r} needs {', '.join(files)}, which are not in {place} below any of {bases}, and {reason};"
        f" give a folder that holds {place} with --data-dir or FEDGRAPH_DATA"
    )


def load_npz(path: Path, keys: Sequence[str]) -> Arrays:
    """Return the arrays `keys` of an npz file, to be called inside `published`."""
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in keys}


@contextmanager
def published(path: Path) -> Iterator[None]:
    """Turn any failure to make a graph of `path` into a `ConfigError`."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # a foreign file may fail in any way
        raise ConfigError(f"{path} is not as published ({error}); replace it by the original") from error


def sha256(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal. Raises `ConfigError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); correct its path or make it a readable file") from error


def _bases(data_dir: Path | None, cache_dir: Path) -> list[Path]:
    own = [] if data_dir is None else [data_dir, data_dir / "pyg", data_dir / "npz"]
    return [*own, cache_dir / "raw"]


def _download(url: str, path: Path) -> None:
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as reply, partial.open("wb") as file:  # noqa: S310 -- https only, see callers
        shutil.copyfileobj(reply, file)
    partial.replace(path)
