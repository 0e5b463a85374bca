"""Graphs as the layers of a GraphSAGE see them: with sampled neighbours, and with generated ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.neighbors import NeighborSum, drawn
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.sparse import Matrix
from fedgraph_sim.engine.tree import Tree


@dataclass(frozen=True, eq=False, kw_only=True)
class LayeredGraph(GraphTensors):
    """A graph of n nodes whose `layers`, one for each layer of a model, may have more nodes, which come after them."""

    layers: tuple[GraphTensors, ...]

    def at_layer(self, index: int) -> GraphTensors:
        """Return the graph that the layer `index` of a model sees."""
        return self.layers[index]


def layered(
    graph: GraphTensors, neighbors: Tree, sizes: Sequence[int], random: RandomStream | None, generated: Tree = None
) -> LayeredGraph:
    """Return `graph` with neighbours drawn for each layer, `sizes` many with replacement, and with generated ones.

    A size of 0 takes all neighbours, and needs no stream. `neighbors` are the graph's `neighbor_lists`. `generated` is
    None, or as `attached` returns it: r nodes with features [r, num_features], each linked to its owner in both
    directions with weight 1. All of it may be filled up with zeros, as states are.

    The mean over `size` draws of ``weight * degree / total`` times what a neighbour has is, on average, the weighted
    mean over all neighbours.
    """
    known = _Neighborhood(graph, neighbors, generated)
    x = graph.x if generated is None else Stacked(graph.x, generated["features"])

    def layer(index: int, size: int) -> GraphTensors:
        if size == 0:
            return replace(graph, x=x, mean_adjacency=known.everyone())
        assert random is not None, "neighbours are drawn from a stream"
        return replace(graph, x=x, mean_adjacency=known.sampled(size, random.fold(index)))

    fields = {name: value for name, value in vars(graph).items() if name != "layers"}
    return LayeredGraph(**fields, layers=tuple(layer(index, size) for index, size in enumerate(sizes)))


def attached(owner: Tensor, features: Tensor, num_nodes: int) -> Tree:
    """Return generated nodes with `features` [r, num_features], each with an owner [r] among `num_nodes` nodes.

    They are sorted by owner: node v's `count` [n] rows begin at row `first` [n].
    """
    order = torch.argsort(owner, stable=True)
    count = torch.bincount(owner, minlength=num_nodes)
    return {"features": features[order], "owner": owner[order], "first": count.cumsum(0) - count, "count": count}


class Stacked(Matrix):
    """A matrix above a dense one that has a gradient: features of a graph's nodes and of generated ones."""

    def __init__(self, above: Tensor | Matrix, below: Tensor) -> None:
        self._above = above
        self._below = below

    def __matmul__(self, dense: Tensor) -> Tensor:
        return torch.cat([self._above @ dense, self._below @ dense])


class _Neighborhood:
    """The neighbours of a graph's n nodes and of r generated ones, whose numbers are n..n + r - 1."""

    def __init__(self, graph: GraphTensors, neighbors: Tree, generated: Tree) -> None:
        n = graph.num_nodes
        self._graph = graph
        self._generated = generated
        self._node, self._weight = neighbors["node"], neighbors["weight"]
        self._start, self._degree, self._total = (neighbors[name][:n] for name in ("start", "degree", "total"))
        if generated is not None:
            self._first, self._count = generated["first"][:n], generated["count"][:n]

    def sampled(self, size: int, random: RandomStream) -> Matrix:
        """Return the mean over `size` neighbours of each node; a generated node has its owner alone."""
        if self._generated is None:
            index, weight = self._chosen(drawn(self._degree, size, random))
            return NeighborSum(index, weight * (self._degree / self._total.clamp(min=1e-12) / size)[:, None])
        degree, total = self._degree + self._count, self._total + self._count
        number = drawn(degree, size, random)
        is_generated = number >= self._degree[:, None]
        index, weight = self._chosen(number)
        n, owner = self._graph.num_nodes, self._generated["owner"]
        row = n + self._first[:, None] + number - self._degree[:, None]
        index = torch.where(is_generated & (degree > 0)[:, None], row, index)
        weight = torch.where(is_generated, 1.0, weight) * (degree / total.clamp(min=1e-12) / size)[:, None]
        ones = torch.ones_like(owner, dtype=weight.dtype)[:, None].expand(-1, size) / size
        return NeighborSum(torch.cat([index, owner[:, None].expand(-1, size)]), torch.cat([weight, ones]))

    def everyone(self) -> Matrix:
        """Return the mean over all neighbours of each node."""
        if self._generated is None:
            return self._graph.mean_adjacency
        share = 1 / (self._total + self._count).clamp(min=1e-12)
        return _MendedMean(self._graph.mean_adjacency, self._total * share, share, self._generated)

    def _chosen(self, number: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nodes, and the edges' weights, of neighbours by their number in each list; weight 0 for none."""
        if len(self._node) == 0:
            return torch.zeros_like(number), torch.zeros_like(number, dtype=torch.float32)
        place = (self._start[:, None] + number).clamp(max=len(self._node) - 1).flatten()
        weight = self._weight.gather(0, place).reshape(number.shape)
        node = self._node.gather(0, place).reshape(number.shape)
        is_there = number < self._degree[:, None]
        return torch.where(is_there, node, 0), torch.where(is_there, weight, 0.0)


class _MendedMean(Matrix):
    """The mean over all neighbours in a graph with generated nodes: [[R M, S E], [E^T, 0]].

    M [n, n] is the mean without them, R the share of its neighbours in all of a node's, S that of a single generated
    one, and E [n, r] tells which node owns which.
    """

    def __init__(self, mean: Matrix, rest: Tensor, share: Tensor, generated: Tree) -> None:
        self._mean, self._rest, self._share = mean, rest[:, None], share[:, None]
        self._owner = generated["owner"]
        # What is filled up has no owner.
        real = torch.arange(len(self._owner), device=share.device) < generated["count"].sum()
        self._real = real[:, None]

    def __matmul__(self, dense: Tensor) -> Tensor:
        n = len(self._rest)
        own, generated = dense[:n], dense[n:]
        added = torch.zeros_like(own).index_add(0, self._owner, torch.where(self._real, generated, 0.0))
        return torch.cat([self._rest * (self._mean @ own) + self._share * added, own.index_select(0, self._owner)])
