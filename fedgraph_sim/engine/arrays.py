"""Trees of tensors as trees of arrays: what Ray's object store holds and hands out without a copy."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgraph_sim.engine.tree import Tree, tree_map

# The store's arrays are read-only. A host checks that no step writes to a message, so that views of them are safe.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def to_arrays(tree: Tree) -> Tree:
    """Return the tree with each tensor (or list of tensors) as an array (or list of arrays); nothing is copied."""
    return tree_map(
        lambda leaf: leaf.numpy(force=True) if isinstance(leaf, Tensor) else [x.numpy() for x in leaf], tree
    )


def to_tensors(tree: Tree) -> Tree:
    """Return the tree with each array (or list of arrays) as a tensor (or list of tensors) on the same memory."""

    def tensor(leaf: Any) -> Any:
        return [torch.from_numpy(x) for x in leaf] if isinstance(leaf, list) else torch.from_numpy(leaf)

    return tree_map(tensor, tree)


def pick(tree: Tree, positions: Sequence[int]) -> Tree:
    """Return the parts of some clients of a tree whose leaves have a leading client axis, or are lists."""
    index = list(positions)
    return tree_map(lambda leaf: [leaf[i] for i in index] if isinstance(leaf, list) else leaf[index], tree)


def gather(parts: Sequence[Tree], positions: Sequence[Sequence[int]], count: int) -> Tree:
    """Put parts, arrays with a leading client axis, into one tree of tensors in which ``positions[i]`` is part i's."""

    def together(*leaves: Any) -> Any:
        shapes = {leaf.shape[1:] if isinstance(leaf, np.ndarray) else None for leaf in leaves}
        if len(shapes) == 1 and None not in shapes:
            whole = torch.empty(count, *leaves[0].shape[1:], dtype=torch.from_numpy(leaves[0]).dtype)
            for leaf, places in zip(leaves, positions, strict=True):
                whole[list(places)] = torch.from_numpy(leaf)
            return whole
        ragged: list[Any] = [None] * count
        for leaf, places in zip(leaves, positions, strict=True):
            for place, part in zip(places, leaf, strict=True):
                ragged[place] = torch.from_numpy(np.array(part))
        return ragged

    return tree_map(together, *parts)
