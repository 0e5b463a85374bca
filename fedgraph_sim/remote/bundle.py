"""What travels to a cluster: the installed package, a run's configuration and, if wanted, its partition."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fedgraph_sim
from fedgraph_sim.datasets.storage import Store
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.files import CONFIG_FILE, write_text
from fedgraph_sim.engine.launch import config_toml
from fedgraph_sim.errors import ConfigError

STORE = "store"
"""The folder of the partition within a bundle."""
MAX_UPLOAD = 500 * 10**6
"""Bytes of a partition that travels; Ray itself takes 512 MiB with everything."""


@contextmanager
def bundle(config: RunConfig | None = None, store: Store[Any] | None = None) -> Iterator[Path]:
    """Yield a folder that a job on the cluster has as its working directory; it is gone afterwards.

    It holds the package as it is installed here and nothing else that lies beside it, ``config.toml``, and `store`.
    """
    with TemporaryDirectory(prefix="fedgraph-sim-") as name:
        folder = Path(name)
        package = Path(fedgraph_sim.__file__).parent
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        if config is not None:
            write_text(folder / CONFIG_FILE, config_toml(config))
        if store is not None:
            shutil.copytree(store.folder, folder / STORE)
        yield folder


def upload_size(store: Store[Any]) -> int:
    """Return the bytes of a partition's files. Raises `ConfigError` where they are more than may travel."""
    size = sum(path.stat().st_size for path in store.folder.iterdir())
    if size > MAX_UPLOAD:
        raise ConfigError(
            f"the partition {store.folder} has {size / 1e6:.0f} MB, and at most {MAX_UPLOAD / 1e6:.0f} MB travel with "
            "a job; put the raw data on the cluster and name its folder there with --data-dir"
        )
    return size
