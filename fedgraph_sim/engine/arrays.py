"""Trees of tensors as trees of arrays: what Ray's object store holds and hands out without a copy."""

import warnings
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraph_sim.engine.tree import Tree, tree_map

# The store's arrays are read-only. A host checks that no step writes to a message, so that views of them are safe.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")

ALIGNMENT = 64
"""Bytes at whose multiples torch begins a tensor."""


def to_arrays(tree: Tree) -> Tree:
    """Return the tree with each tensor (or list of tensors) as an array (or list of them); on a CPU without a copy."""

    def array(leaf: Any) -> Any:
        return leaf.numpy(force=True) if isinstance(leaf, Tensor) else [part.numpy(force=True) for part in leaf]

    return tree_map(array, tree)


def to_tensors(tree: Tree) -> Tree:
    """Return the tree with each array (or list of arrays) as a tensor (or list of tensors) on the same memory.

    Small arrays that Ray keeps among other bytes are copied to where torch would put them: sums of numbers that lie
    otherwise come out otherwise in the last bit.
    """

    def tensor(leaf: Any) -> Any:
        return [aligned(part) for part in leaf] if isinstance(leaf, list) else aligned(leaf)

    def aligned(array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor

    return tree_map(tensor, tree)


def device_for(*, use_cuda: bool) -> torch.device:
    """Return where this process computes: on its GPU, if it may use one and has one."""
    return torch.device("cuda" if use_cuda and torch.cuda.is_available() else "cpu")


def to_device(tree: Tree, device: torch.device) -> Tree:
    """Return the tree on `device`; what is there already is not copied."""
    return tree_map(
        lambda leaf: [part.to(device) for part in leaf] if isinstance(leaf, list) else leaf.to(device), tree
    )
