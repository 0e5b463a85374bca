"""A client's graph as a client step sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.engine.links import Links
from fedgraph_sim.engine.sparse import Matrix, SparseMatrix

if TYPE_CHECKING:
    from fedgraph_sim.engine.batch import Batch


@dataclass(frozen=True, eq=False)
class GraphTensors:
    """Tensors of one graph of n nodes.

    Shapes: `x` [n, num_features], dense or sparse; `y` [n], -1 where unknown; the three masks [n], boolean; the two
    propagation matrices [n, n], row = target, see `normalized_adjacency` and `mean_adjacency`; `num_train` is how many
    nodes train, in a batch in the client that has most: what the number of steps may depend on; `links` only where
    links are predicted: those of validation and test are in neither matrix. Only outside of batches: `node_id` [n], the
    nodes' numbers in the whole graph, and `adjacency` [n, n] of edge weights, row = target.
    """

    x: Tensor | Matrix
    y: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    normalized_adjacency: Matrix
    mean_adjacency: Matrix
    num_train: int
    links: Links | None = None
    node_id: Tensor | None = None
    adjacency: sparse.csr_array | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes n, padding included inside a batch."""
        return self.y.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.y.device

    def at_layer(self, index: int) -> "GraphTensors":
        """Return the graph that the layer `index` of a model sees: this one."""
        return self

    @classmethod
    def stack(cls, parts: Sequence["GraphTensors"]) -> "Batch":
        """Put the graphs of several clients together."""
        from fedgraph_sim.engine.batch import Batch

        return Batch.of(parts)

    @classmethod
    def of(cls, graph: Graph, device: torch.device, link_split: LinkSplit | None = None) -> "GraphTensors":
        """Move the arrays of `graph` to `device`; with a `link_split` its links are examples."""
        examples = None
        if link_split is not None:
            split = link_split.apply(graph)
            graph, examples = split.visible, Links.of(split, link_split.seed, device)
        links = adjacency(graph)
        role = torch.from_numpy(graph.role).to(device)
        sparse_features = isinstance(graph.x, sparse.csr_array)
        return cls(
            x=SparseMatrix(graph.x, device) if sparse_features else torch.from_numpy(graph.x).to(device),
            y=torch.from_numpy(graph.y).to(device),
            train_mask=role == Role.TRAIN,
            val_mask=role == Role.VAL,
            test_mask=role == Role.TEST,
            normalized_adjacency=SparseMatrix(partial(normalized, links), device),
            mean_adjacency=SparseMatrix(partial(averaging, links), device),
            num_train=graph.count(Role.TRAIN),
            links=examples,
            node_id=torch.from_numpy(graph.node_id).to(device),
            adjacency=links,
        )


def adjacency(graph: Graph) -> sparse.csr_array:
    """Return A [n, n] with A[target, source] = the edge's weight, float64; parallel edges add up."""
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.astype(np.float64)
    sources, targets = graph.edge_index
    return sparse.coo_array((weight, (targets, sources)), (graph.num_nodes, graph.num_nodes)).tocsr()


def normalized_adjacency(graph: Graph) -> sparse.csr_array:
    """Return `normalized` of the graph's adjacency."""
    return normalized(adjacency(graph))


def normalized(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return D^-1/2 A_hat D^-1/2, D being the row sums of A_hat = A + I (Kipf and Welling, ICLR 2017, eq. 2).

    A node that has a self loop already gets no second one.
    """
    looped = matrix + sparse.diags_array((matrix.diagonal() == 0).astype(np.float64), format="csr")
    scale = sparse.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return (scale @ looped @ scale).tocsr()


def mean_adjacency(graph: Graph) -> sparse.csr_array:
    """Return `averaging` of the graph's adjacency."""
    return averaging(adjacency(graph))


def averaging(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return D^-1 A, the weighted mean over in-neighbours, zero where there is none (Hamilton et al., NeurIPS 2017)."""
    degree = matrix.sum(axis=1)
    return (sparse.diags_array(np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)) @ matrix).tocsr()
