"""What every data set has in common: its options, and the preprocessing that they select."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fedgraph_sim.datasets import preprocess, raw
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.errors import ConfigError


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"{path} names the home folder of an unknown user; write the whole path") from error


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
"""A path of the user, resolved where the command was typed, so that a run's config repeats it from anywhere."""


class Dataset(BaseModel):
    """A named source of one graph; its fields are the `[dataset]` table of a configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    summary: ClassVar[str]

    name: str = Field(description="name of the data set")
    largest_component: bool = Field(True, description="keep only the largest weakly connected component")
    normalize_features: bool = Field(True, description="shift features to a minimum of 0 and divide rows by their sum")
    undirected: bool = Field(True, description="add the reverse of every edge and drop duplicates")
    self_loops: bool = Field(False, description="true: exactly one self loop per node; false: none")

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the raw graph. `data_dir` is never written to; downloads go below `cache_dir`."""
        raise NotImplementedError

    def seeded(self, seed: int) -> Self:
        """Return the data set that a run with this data seed uses: another one only where the data are drawn by it."""
        return self

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the raw files that `read` reads, always in the same order, after downloading those that are nowhere.

        Raises `ConfigError` where that fails.
        """
        return ()

    def load(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the preprocessed graph, its nodes numbered 0..num_nodes-1.

        Order of the steps: undirected, self loops, largest component, features.
        Raises `ConfigError` where the raw files are missing or unusable.
        """
        graph = self.read(data_dir, cache_dir)
        if graph.client_graph is not None and self.largest_component:
            raise ConfigError(
                f"dataset.largest_component=true, but the nodes of {self.name} are samples, which no edges join; set it"
                " to false"
            )
        if self.undirected:
            graph = preprocess.symmetrize(graph)
        graph = preprocess.with_self_loops(graph) if self.self_loops else preprocess.without_self_loops(graph)
        if self.largest_component:
            graph = preprocess.largest_component(graph)
        x = preprocess.normalize_features(graph.x) if self.normalize_features else graph.x
        return replace(graph, x=preprocess.compact_features(x), node_id=np.arange(graph.num_nodes))

    def fingerprint(self, data_dir: Path | None, cache_dir: Path) -> str:
        """Return a stable hash of everything that decides what `load` returns: options and the content of files."""
        hashes = [raw.sha256(path) for path in self.files(data_dir, cache_dir)]
        text = self.model_dump_json(exclude={"path"}) + "".join(hashes)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
