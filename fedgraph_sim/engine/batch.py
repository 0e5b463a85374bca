"""Graphs of several clients, padded to the same number of nodes, for steps that run all of them in one computation.

A padding node has no features, no edges and no role: it takes part in no propagation, no mean, no loss and no count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.links import Links
from fedgraph_sim.engine.replay import Programs
from fedgraph_sim.engine.sparse import Blocks, Matrix, SparseMatrix

MAX_PADDING = 0.2
"""Largest share of padding nodes among the nodes of a batch."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Stacked tensors of K graphs of at most n nodes; the masks and `y` are [K, n], dense features [K, n, F]."""

    x: Tensor | Blocks
    y: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    normalized_adjacency: Blocks
    mean_adjacency: Blocks
    index: Tensor
    num_train: int
    links: Links | None
    programs: Programs = field(default_factory=Programs)

    @classmethod
    def of(cls, graphs: Sequence[GraphTensors]) -> "Batch":
        """Stack the graphs of some clients."""
        size = max(graph.num_nodes for graph in graphs)
        square = (size, size)
        first = graphs[0].x
        links = [graph.links for graph in graphs if graph.links is not None]
        if isinstance(first, SparseMatrix):
            columns = [graph.x for graph in graphs if isinstance(graph.x, Matrix)]
            x: Tensor | Blocks = Blocks(columns, (size, first.shape[1]))
        else:
            x = torch.stack([_padded(graph.x, size) for graph in graphs if isinstance(graph.x, Tensor)])
        return cls(
            x=x,
            y=torch.stack([_padded(graph.y, size) for graph in graphs]),
            train_mask=torch.stack([_padded(graph.train_mask, size) for graph in graphs]),
            val_mask=torch.stack([_padded(graph.val_mask, size) for graph in graphs]),
            test_mask=torch.stack([_padded(graph.test_mask, size) for graph in graphs]),
            normalized_adjacency=Blocks([graph.normalized_adjacency for graph in graphs], square),
            mean_adjacency=Blocks([graph.mean_adjacency for graph in graphs], square),
            index=torch.arange(len(graphs), device=graphs[0].y.device),
            num_train=max(graph.num_train for graph in graphs),
            links=Links.stack(links) if links else None,
        )

    def tensors(self) -> dict[str, Any]:
        """Return what ``torch.vmap`` maps over to get at one client's graph."""
        own = {"y": self.y, "train": self.train_mask, "val": self.val_mask, "test": self.test_mask, "index": self.index}
        features = {"x": self.x} if isinstance(self.x, Tensor) else {}
        return own | features | ({"links": self.links.tensors()} if self.links is not None else {})

    def one(self, own: dict[str, Any]) -> GraphTensors:
        """Return one client's graph inside ``torch.vmap``, `own` being its part of `tensors`."""
        index = own["index"]
        return GraphTensors(
            x=own["x"] if isinstance(self.x, Tensor) else self.x.of_client(index),
            y=own["y"],
            train_mask=own["train"],
            val_mask=own["val"],
            test_mask=own["test"],
            normalized_adjacency=self.normalized_adjacency.of_client(index),
            mean_adjacency=self.mean_adjacency.of_client(index),
            num_train=self.num_train,
            links=Links(**own["links"]) if "links" in own else None,
        )


def groups_of_like_size(sizes: Sequence[int], max_padding: float = MAX_PADDING) -> list[list[int]]:
    """Return positions in `sizes`, largest first, in groups that each waste at most `max_padding` on padding."""
    groups: list[list[int]] = []
    total = 0
    for position in sorted(range(len(sizes)), key=lambda position: (-sizes[position], position)):
        if groups:
            largest, count = sizes[groups[-1][0]], len(groups[-1]) + 1
            if total + sizes[position] >= (1 - max_padding) * largest * count:
                groups[-1].append(position)
                total += sizes[position]
                continue
        groups.append([position])
        total = sizes[position]
    return [sorted(group) for group in groups]


def _padded(values: Tensor, size: int) -> Tensor:
    """Fill up the first dimension with zeros (False)."""
    missing = size - values.shape[0]
    return F.pad(values, (0, 0) * (values.dim() - 1) + (0, missing))
