"""What every data set has in common: where its files are, and what names its content."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.datasets import raw
from fedgraph_sim.datasets.kind import Kind


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"{path} names the home folder of an unknown user; write the whole path") from error


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
"""A path of the user, resolved where the command was typed, so that a run's config repeats it from anywhere."""


class Dataset(ConfigTable, ABC):
    """A named source of data for clients; its fields are the `[dataset]` table of a configuration."""

    summary: ClassVar[str]
    kind: ClassVar[Kind]

    name: str = Field(description="name of the data set")

    @abstractmethod
    def load(self, data_dir: Path | None, cache_dir: Path) -> Any:
        """Return the whole data, as split, partitioners and store of its kind take them.

        `data_dir` is never written to; downloads go below `cache_dir`. Raises `ConfigError` where the raw files are
        missing or unusable.
        """

    def seeded(self, seed: int) -> Self:
        """Return the data set that a run with this data seed uses: another one only where the data are drawn by it."""
        return self

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the raw files that are read, always in the same order, after downloading those that are nowhere.

        Raises `ConfigError` where that fails.
        """
        return ()

    def fingerprint(self, data_dir: Path | None, cache_dir: Path) -> str:
        """Return a stable hash of everything that decides what `load` returns: options and the content of files."""
        hashes = [raw.sha256(path) for path in self.files(data_dir, cache_dir)]
        text = self.model_dump_json(exclude={"path"}) + "".join(hashes)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
