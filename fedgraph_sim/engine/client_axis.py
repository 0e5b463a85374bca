"""Trees of several clients at once: each leaf has a leading client axis, or is a list where the shapes differ."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedgraph_sim.engine.tree import Tree, tree_map


def stack(trees: Sequence[Tree], *, fill: bool = False) -> Tree:
    """Put the trees of several clients together; with `fill` shorter leaves are filled up with zeros (False)."""

    def together(*parts: Tensor) -> Tensor | list[Tensor]:
        if len({part.shape for part in parts}) == 1:
            return torch.stack(parts)
        return pad_sequence(list(parts), batch_first=True) if fill else list(parts)

    return tree_map(together, *trees)


def one(tree: Tree, position: int) -> Tree:
    """Return the tree of one client."""
    return tree_map(lambda leaf: leaf[position], tree)


def pick(tree: Tree, positions: Sequence[int]) -> Tree:
    """Return the trees of some clients; all of them, in order, cost no copy."""
    index = list(positions)

    def part(leaf: Any) -> Any:
        if index == list(range(len(leaf))):
            return leaf
        return [leaf[at] for at in index] if isinstance(leaf, list) else leaf[index]

    return tree_map(part, tree)


def put(tree: Tree, positions: Sequence[int], parts: Tree) -> Tree:
    """Return the tree with the clients at `positions` replaced by those of `parts`; all, in order, cost no copy."""
    index = list(positions)

    def replaced(leaf: Tensor, part: Tensor) -> Tensor:
        if index == list(range(len(leaf))):
            return part
        whole = leaf.clone()
        whole[index] = part
        return whole

    return tree_map(replaced, tree, parts)


def gather(parts: Sequence[Tree], positions: Sequence[Sequence[int]]) -> Tree:
    """Put parts together so that the clients of ``parts[i]`` are at ``positions[i]``."""
    if len(parts) == 1 and list(positions[0]) == list(range(len(positions[0]))):
        return parts[0]
    count = sum(map(len, positions))

    def together(*leaves: Any) -> Any:
        shapes = {leaf.shape[1:] if isinstance(leaf, Tensor) else None for leaf in leaves}
        if len(shapes) == 1 and None not in shapes:
            whole = leaves[0].new_empty(count, *leaves[0].shape[1:])
            for leaf, places in zip(leaves, positions, strict=True):
                whole[list(places)] = leaf
            return whole
        ragged: list[Any] = [None] * count
        for leaf, places in zip(leaves, positions, strict=True):
            for place, part in zip(places, leaf, strict=True):
                ragged[place] = part
        return ragged

    return tree_map(together, *parts)


def weighted_sum(tree: Tree, weights: Tensor) -> Tree:
    """Return sum_k weights_k leaf_k for every leaf, one matrix product each; whole numbers come out in float64.

    `weights` is [num_clients], or [n, num_clients] for n sums, which are stacked on a leading axis.
    """

    def total(leaf: Tensor) -> Tensor:
        flat = leaf.reshape(len(leaf), -1).to(leaf.dtype if leaf.is_floating_point() else torch.double)
        return (weights.to(flat) @ flat).reshape((*weights.shape[:-1], *leaf.shape[1:]))

    return tree_map(total, tree)
