from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fedgraph_sim.datasets.graph import Graph


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., Graph]:
    """Build a graph from its directed entries; node i has the feature row (i, 1), classes alternate."""

    def make(num_nodes: int, entries: Sequence[tuple[int, int]], *, both_ways: bool = False, **fields: Any) -> Graph:
        edge_index = np.array(entries, dtype=np.int64).reshape(-1, 2).T
        if both_ways:
            edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)
        defaults: dict[str, Any] = {
            "x": np.stack([np.arange(num_nodes), np.ones(num_nodes)], axis=1).astype(np.float32),
            "edge_index": edge_index,
            "edge_weight": None,
            "y": np.arange(num_nodes) % 2,
            "role": np.ones(num_nodes, dtype=np.int8),
            "node_id": np.arange(num_nodes),
            "num_classes": 2,
        }
        return Graph(**{**defaults, **fields})

    return make
