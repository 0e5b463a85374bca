"""Trees: what messages, replies and states are made of, namely nested dictionaries whose leaves are tensors."""

from collections.abc import Callable, Iterator
from typing import Any

Tree = Any  # a leaf, None, or dict[str, Tree]; mypy has no useful recursive form of it


def tree_map(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Return the tree of ``function(leaf, *other_leaves)``; all trees have the same shape."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: tree_map(function, value, *(other[key] for other in others)) for key, value in tree.items()}
    return function(tree, *others)


def leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``("weights/head.bias", leaf)`` for each leaf, in the order of the keys."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}/{key}" if path else str(key))
    elif tree is not None:
        yield path, tree
