"""What ``matrices.parquet`` holds, as square arrays, and an order of the clients in which they are easy to read."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

Matrix = NDArray[np.float64]


def matrices_of(table: pd.DataFrame, num_clients: int) -> dict[str, dict[int, Matrix]]:
    """Return by name and round a matrix [num_clients, num_clients], NaN for pairs that were not compared."""
    found: dict[str, dict[int, Matrix]] = {}
    for (name, round), rows in table.groupby(["name", "round"], observed=True) if len(table) else ():
        matrix = np.full((num_clients, num_clients), np.nan)
        matrix[rows["row"], rows["column"]] = rows["value"]
        found.setdefault(str(name), {})[int(round)] = matrix
    return found


def recorded(found: Mapping[str, Mapping[int, Matrix]]) -> dict[str, Mapping[int, Matrix]]:
    """Return what the algorithm recorded, without what the partition says of itself (round 0)."""
    return {name: by_round for name, by_round in found.items() if max(by_round) > 0}


def some_rounds(by_round: Mapping[int, Matrix], number: int = 6) -> dict[int, Matrix]:
    """Return the first, the last and some rounds between them."""
    rounds = sorted(by_round)
    chosen = np.unique(np.linspace(0, len(rounds) - 1, min(number, len(rounds))).round().astype(int))
    return {rounds[index]: by_round[rounds[index]] for index in chosen}


def reading_order(similarity: Matrix) -> Sequence[int]:
    """Return the clients so that similar ones are neighbours: the leaves of an average-linkage tree.

    The distance of two clients is how much less similar they are than the most similar pair.
    """
    both = (similarity + similarity.T) / 2
    count = len(both)
    if count < 3 or not np.isfinite(both).all():
        return range(count)
    distance = both.max() - both
    np.fill_diagonal(distance, 0.0)
    order: list[int] = leaves_list(
        linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    ).tolist()
    return order
