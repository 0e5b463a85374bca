"""Graph networks: blocks that update edges, nodes and a global value, as functions of weights.

Battaglia et al., Relational Inductive Biases, Deep Learning, and Graph Networks, 2018.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import uniform

Weights = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Links:
    """E links among N nodes, sorted by target: `source` and `target` [E], `weight` [E], and N."""

    source: Tensor
    target: Tensor
    weight: Tensor
    num_nodes: int

    @classmethod
    def of(cls, adjacency: sparse.csr_array, device: torch.device | None = None) -> "Links":
        """Return the entries of `adjacency` [N, N], row = target, and one of weight 1 from each node to itself.

        Such is the diagonal of the published networks: exp(-d^2) of no distance.
        """
        links = adjacency.tolil()
        links.setdiag(1)
        entries = links.tocsr().tocoo()
        target, source = (torch.from_numpy(index.astype(np.int64)).to(device) for index in entries.coords)
        weight = torch.from_numpy(entries.data.astype(np.float32)).to(device)
        return cls(source, target, weight, adjacency.shape[0])


@dataclass(frozen=True, kw_only=True)
class GraphNetwork:
    """`blocks` blocks with residuals by concatenation, and a linear layer from the nodes' values to embeddings.

    In a block, with all sums over links that arrive or over everything,
    ``e' = f_e(e, v_source, v_target, u)``, ``v' = f_v(sum e', v, u)``, ``u' = f_u(sum v', sum e', u)``, each f being
    three linear layers with ReLU between them, of `width`, `width` and `out` entries. The next block sees (e', e),
    (v', v) and (u', u). An edge begins as its weight, a node as the encoding, u as zeros.
    """

    size: int = 64
    width: int = 256
    out: int = 128
    blocks: int = 2

    @property
    def _widths(self) -> list[tuple[int, int, int]]:
        """Entries of an edge, a node and u before each block."""
        grown = [self.out * block for block in range(self.blocks)]
        return [(1 + more, self.size + more, self.size + more) for more in grown]

    def init(self, generator: torch.Generator) -> Weights:
        """Draw all weights uniformly in +-1 / sqrt(inputs of the layer), as torch.nn.Linear does."""
        weights: Weights = {}

        def linear(name: str, inputs: int, outputs: int) -> None:
            bound = 1 / sqrt(inputs)
            weights[f"{name}.weight"] = uniform((inputs, outputs), bound, generator)
            weights[f"{name}.bias"] = uniform((outputs,), bound, generator)

        for block, (edge, node, whole) in enumerate(self._widths):
            inputs = {"edge": edge + 2 * node + whole, "node": self.out + node + whole, "global": 2 * self.out + whole}
            for part, count in inputs.items():
                linear(f"{block}.{part}.0", count, self.width)
                linear(f"{block}.{part}.1", self.width, self.width)
                linear(f"{block}.{part}.2", self.width, self.out)
        linear("head", self.size + self.blocks * self.out, self.size)
        return weights

    def __call__(self, weights: Weights, encodings: Tensor, links: Links) -> Tensor:
        """Return embeddings [N, B, size] from `encodings` [N, B, size] of the N nodes in each of B windows."""
        nodes = encodings
        whole = encodings.new_zeros(encodings.shape[1], self.size)
        edges = links.weight[:, None, None].expand(-1, encodings.shape[1], 1)
        for block in range(self.blocks):
            edges_new, nodes_new, whole_new = self._block(weights, block, edges, nodes, whole, links)
            edges, nodes = torch.cat([edges_new, edges], dim=-1), torch.cat([nodes_new, nodes], dim=-1)
            whole = torch.cat([whole_new, whole], dim=-1)
        return nodes @ weights["head.weight"] + weights["head.bias"]

    def _block(
        self, weights: Weights, block: int, edges: Tensor, nodes: Tensor, whole: Tensor, links: Links
    ) -> tuple[Tensor, Tensor, Tensor]:
        # The first layer of an edge is a sum over its inputs, so that nodes' parts are computed once per node.
        name = f"{block}.edge"
        own, source, target, rest = torch.split(
            weights[f"{name}.0.weight"], [edges.shape[-1], nodes.shape[-1], nodes.shape[-1], whole.shape[-1]]
        )
        first = edges @ own + (nodes @ source)[links.source] + (nodes @ target)[links.target]
        new_edges = self._rest(weights, name, first + (whole @ rest + weights[f"{name}.0.bias"]))
        arriving = new_edges.new_zeros(*nodes.shape[:2], self.out).index_add(0, links.target, new_edges)
        new_nodes = self._mlp(weights, f"{block}.node", [arriving, nodes, whole.expand(len(nodes), *whole.shape)])
        new_whole = self._mlp(weights, f"{block}.global", [new_nodes.sum(dim=0), new_edges.sum(dim=0), whole])
        return new_edges, new_nodes, new_whole

    def _mlp(self, weights: Weights, name: str, inputs: list[Tensor]) -> Tensor:
        first = torch.cat(inputs, dim=-1) @ weights[f"{name}.0.weight"] + weights[f"{name}.0.bias"]
        return self._rest(weights, name, first)

    def _rest(self, weights: Weights, name: str, first: Tensor) -> Tensor:
        second = torch.relu(first) @ weights[f"{name}.1.weight"] + weights[f"{name}.1.bias"]
        return torch.relu(second) @ weights[f"{name}.2.weight"] + weights[f"{name}.2.bias"]
