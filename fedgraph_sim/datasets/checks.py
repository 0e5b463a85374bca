"""Checks of the user's own arrays; rows are counted from 1."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraph_sim.errors import ConfigError


def finite_features(x: NDArray[Any], path: Path) -> None:
    """Refuse features [num_nodes, num_features] with NaN or infinite entries, also once they are float32."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(x.astype(np.float32))
    row = first(~finite.all(axis=1))
    if row is not None:
        value = x[row - 1][~finite[row - 1]][0]
        raise ConfigError(
            f"{path}: features of node row {row} hold {value:g}; replace it by a finite number up to 3.4e38"
        )


def edges_in_range(edge_index: NDArray[Any], num_nodes: int, path: Path) -> None:
    """Refuse edges [2, num_edges] to nodes that are not there."""
    row = first(((edge_index < 0) | (edge_index >= num_nodes)).any(axis=0))
    if row is not None:
        raise ConfigError(
            f"{path}: edge {row} joins {edge_index[:, row - 1].tolist()} but nodes are 0 to {num_nodes - 1};"
            " remove the edge or add the node"
        )


def weights(weight: NDArray[Any], path: Path) -> None:
    """Refuse edge weights [num_edges] that are negative, NaN or infinite."""
    with np.errstate(over="ignore"):
        row = first(~(np.isfinite(weight.astype(np.float32)) & (weight >= 0)))
    if row is not None:
        raise ConfigError(
            f"{path}: weight of edge row {row} is {weight[row - 1]}; replace it by a number from 0 to 3.4e38"
        )


def labels(y: NDArray[Any], path: Path) -> None:
    """Refuse labels [num_nodes] other than -1 and numbers from 0 to num_nodes, and those that are all -1."""
    row = first((y > len(y)) | (y < -1))
    if row is not None:
        raise ConfigError(
            f"{path}: label of node row {row} is {y[row - 1]}; number classes from 0, by at most the number of nodes,"
            " and write -1 where it is unknown"
        )
    if not (y >= 0).any():
        raise ConfigError(f"{path}: no node has a label; give some nodes a class from 0")


def first(bad: NDArray[Any] | np.bool_) -> int | None:
    """Return the number, from 1, of the first bad row, or None."""
    return int(bad.argmax()) + 1 if bad.any() else None
