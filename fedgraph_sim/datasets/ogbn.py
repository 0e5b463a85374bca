"""ogbn-arxiv, the citation network of the Open Graph Benchmark.

Hu et al., Open Graph Benchmark: Datasets for Machine Learning on Graphs, 2020.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow.csv as csv
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets import checks, raw
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset
from fedgraph_sim.errors import ConfigError

SPLITS = {Role.TRAIN: "train", Role.VAL: "valid", Role.TEST: "test"}
FILES = (
    "raw/edge.csv.gz",
    "raw/node-feat.csv.gz",
    "raw/node-label.csv.gz",
    *(f"split/time/{split}.csv.gz" for split in SPLITS.values()),
)


class OgbnArxiv(GraphDataset):
    """Citations among arXiv papers; features are averaged word embeddings, `own` roles go by year."""

    summary: ClassVar[str] = "169,343 arXiv papers and their citations, classes are subject areas"

    name: Literal["ogbn-arxiv"] = Field("ogbn-arxiv", description="name of the data set")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the paths of the csv files."""
        folder = _folder(data_dir, cache_dir)
        return [folder / file for file in FILES]

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the network from OGB's compressed csv files."""
        folder = _folder(data_dir, cache_dir)
        with raw.published(folder):
            return _graph(folder)


def _graph(folder: Path) -> Graph:
    y = _csv(folder / "raw/node-label.csv.gz", np.int64)[:, 0]
    x = _csv(folder / "raw/node-feat.csv.gz", np.float32)
    checks.finite_features(x, folder / "raw/node-feat.csv.gz")
    checks.labels(y, folder / "raw/node-label.csv.gz")
    role = np.zeros(len(y), dtype=np.int8)
    for value, split in SPLITS.items():
        role[_csv(folder / f"split/time/{split}.csv.gz", np.int64)[:, 0]] = value
    return Graph(
        x=x,
        edge_index=np.ascontiguousarray(_csv(folder / "raw/edge.csv.gz", np.int64).T),
        edge_weight=None,
        y=y,
        role=role,
        node_id=np.arange(len(y)),
        num_classes=int(y.max()) + 1,
    ).checked()


def _folder(data_dir: Path | None, cache_dir: Path) -> Path:
    places = ("ogbn_arxiv", "ogbn-arxiv", "arxiv")
    folder = raw.find(FILES, places, data_dir, cache_dir)
    if folder is not None:
        return folder
    reason = "the package ogb, which downloads them, is not installed (pip install 'fedgraph-sim[ogb]')"
    try:
        from ogb.nodeproppred import NodePropPredDataset  # type: ignore[import-not-found,import-untyped,unused-ignore]

        reason = "OGB's download did not bring them"
        NodePropPredDataset("ogbn-arxiv", root=str(cache_dir / "raw"))
    except ImportError:
        pass
    except Exception as error:  # no network, a broken archive, ...
        reason = f"OGB's download failed ({error})"
    folder = raw.find(FILES, places, data_dir, cache_dir)
    if folder is None:
        raise raw.missing("ogbn-arxiv", FILES, places[0], data_dir, cache_dir, reason)
    return folder


def _csv(path: Path, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a csv file of numbers without a header as [num_rows, num_columns]."""
    try:
        table = csv.read_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=True))
        return np.stack([column.to_numpy().astype(dtype, copy=False) for column in table.columns], axis=1)
    except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
        raise ConfigError(f"{path} is not a csv file of numbers ({error}); replace it by OGB's file") from error
