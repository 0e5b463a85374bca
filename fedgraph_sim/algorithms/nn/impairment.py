"""Impaired graphs: nodes are hidden on purpose, so that their neighbours know what they lack."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.nn.nearest import nearest, squared_distances
from fedgraph_sim.algorithms.nn.ordering import shuffled_ranks
from fedgraph_sim.engine.graph_tensors import GraphTensors, averaging
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.sparse import SparseMatrix


def hidden_nodes(num_nodes: int, share: float, random: RandomStream) -> Tensor:
    """Return a mask [n] of round(share * n) random nodes, of which at least one stays visible."""
    everyone = torch.ones(num_nodes, dtype=torch.bool, device=random.key.device)
    return shuffled_ranks(everyone, random) < min(round(share * num_nodes), num_nodes - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Impaired:
    """A graph without the links of its `hidden` nodes [n]; these stay as nodes without links, to be left out.

    `missing` [n, n], row = node, column = hidden neighbour.
    """

    graph: GraphTensors
    hidden: Tensor
    missing: sparse.csr_array

    @classmethod
    def of(cls, graph: GraphTensors, hidden: Tensor) -> "Impaired":
        """Take the hidden nodes out of `graph`."""
        assert graph.adjacency is not None
        is_hidden = hidden.cpu().numpy()
        links = graph.adjacency.tocoo()
        seen = ~is_hidden[links.row] & ~is_hidden[links.col]
        lost = ~is_hidden[links.row] & is_hidden[links.col]

        def matrix(which: NDArray[np.bool_]) -> sparse.csr_array:
            entries = (links.data[which], (links.row[which], links.col[which]))
            return sparse.coo_array(entries, links.shape).tocsr()

        adjacency = matrix(seen)
        mean = SparseMatrix(partial(averaging, adjacency), hidden.device)
        visible = replace(graph, adjacency=adjacency, mean_adjacency=mean, train_mask=graph.train_mask & ~hidden)
        return cls(graph=visible, hidden=hidden, missing=matrix(lost))

    def num_missing(self) -> Tensor:
        """Return the number of hidden neighbours of each node, [n]."""
        return torch.from_numpy(np.diff(self.missing.indptr)).to(self.hidden.device, torch.float32)

    def batch(self, size: int, random: RandomStream) -> Tensor:
        """Return at most `size` random visible nodes, all of them for 0."""
        num_visible = int((~self.hidden).sum())
        rank = shuffled_ranks(~self.hidden, random)
        return (rank < min(size or num_visible, num_visible)).nonzero().flatten()

    def distances(self, node: Tensor, features: Tensor, *, last: int = 0) -> Tensor:
        """Return min_u ||features_i - x_u||^2, [r], over the hidden neighbours u of node_i; 0 where there is none.

        With `last` = p the target is not the nearest but the last of a node's first p hidden neighbours.
        """
        missing = self.missing[node.cpu().numpy()]
        columns = np.flatnonzero(self.hidden.cpu().numpy())
        counts = np.diff(missing.indptr)
        has_any = torch.from_numpy(counts > 0).to(node.device)
        if not missing.nnz:
            return features.new_zeros(len(node))
        if last:
            place = missing.indptr[:-1] + np.minimum(counts, last) - 1
            target = torch.from_numpy(np.where(counts > 0, missing.indices[np.maximum(place, 0)], 0)).long()
        else:
            hidden = torch.from_numpy(columns).to(node.device)
            allowed = torch.from_numpy(missing[:, columns].toarray() > 0).to(node.device)
            target = hidden[nearest(features, _some(self.graph, hidden), allowed)]
        distances = squared_distances(features, self.graph.x, target.to(node.device))
        return torch.where(has_any, distances, 0.0)


def _some(graph: GraphTensors, node: Tensor) -> Tensor | SparseMatrix:
    """Return the features of some nodes, sparse if they are."""
    x = graph.x
    if isinstance(x, Tensor):
        return x[node]
    assert isinstance(x, SparseMatrix), "outside of batches features are a tensor or a sparse matrix"
    return SparseMatrix(x.rows[node.cpu().numpy()], x.device)
