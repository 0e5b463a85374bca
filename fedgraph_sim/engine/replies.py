"""What came back from a call."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedgraph_sim.engine.tree import Tree, tree_map


@dataclass(frozen=True)
class Replies(Mapping[int, Tree]):
    """The replies of some clients, in the order in which they were asked.

    `tree` has one tensor per leaf with a leading client axis, [num_replies, ...]; where the clients' shapes differ, a
    leaf is a list of their tensors. As a mapping it gives one client's reply: ``replies[client]["weights"]``.
    """

    clients: tuple[int, ...]
    tree: Tree

    def __getitem__(self, client: int) -> Tree:
        if client not in self.clients:
            raise KeyError(client)
        position = self.clients.index(client)
        return tree_map(lambda leaf: leaf[position], self.tree)

    def __iter__(self) -> Iterator[int]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)

    def stack(self, key: str) -> Tree:
        """Return the part `key` of all replies, each leaf with a leading client axis."""
        return self.tree[key]

    def mean(self, key: str, *, by: Tensor) -> Tree:
        """Return sum_k by_k leaf_k / sum_k by_k for every leaf under `key`, whole-number buffers included (rounded).

        `by` is [num_replies], non-negative and not all zero.
        """
        total = by.double().sum()
        assert total > 0, "the weights of a mean must not all be zero"
        share = by.double() / total

        def weighted(leaf: Tensor) -> Tensor:
            # Whole numbers in double precision: float32 has none of its own beyond 2^24.
            wide = torch.promote_types(leaf.dtype, torch.float) if leaf.is_floating_point() else torch.double
            mean = share.to(leaf.device, wide) @ leaf.reshape(len(self), -1).to(wide)
            mean = mean if leaf.is_floating_point() else mean.round()
            return mean.to(leaf.dtype).reshape(leaf.shape[1:])

        return tree_map(weighted, self.tree[key])
