"""Models of undivided graphs, which only centralised references use: personalized propagation and attention."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.nn.models import MLP, MODELS, Model, Weights
from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.sparse import Matrix

STEPS = 10
TELEPORT = 0.1
HEADS = 8


class APPNP(MLP):
    """Z <- (1 - a) A_hat Z + a H, M times from Z = H, H being the outputs of an MLP, M = 10 and a = 0.1.

    Gasteiger et al., Predict then Propagate, ICLR 2019, eq. 8.
    """

    def __call__(self, weights: Weights, graph: GraphTensors, random: RandomStream | None = None) -> Tensor:
        """Return propagated logits [n, num_classes], or embeddings [n, hidden]."""
        h = super().__call__(weights, graph, random)
        z = h
        for _ in range(STEPS):
            z = (1 - TELEPORT) * (graph.normalized_adjacency @ z) + TELEPORT * h
        return z


class GAT(Model):
    """Eight heads of attention over neighbours and the node itself, side by side, twice, then a head.

    h'_i = sum_j a_ij W h_j + b, a_ij = softmax_j(LeakyReLU(s . W h_j + t . W h_i)) in each head, whose width is an
    eighth of `hidden` (Velickovic et al., Graph Attention Networks, ICLR 2018, eq. 3 to 5). Edges have no weights.
    """

    def layer_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """Return the matrix of all heads, their two attention vectors, [hidden] each, and one bias."""
        assert self.hidden % HEADS == 0, "heads have equal widths"
        vector = (self.hidden // HEADS, HEADS)
        return {"weight": (width, self.hidden), "source": vector, "target": vector, "bias": (self.hidden,)}

    def layer(self, name: str, weights: Weights, graph: GraphTensors, h: Tensor | Matrix) -> Tensor:
        """Return the heads' sums side by side, [n, hidden]."""
        values = (h @ weights[f"{name}.weight"]).reshape(graph.num_nodes, -1, HEADS)
        entries = graph.normalized_adjacency.entries
        target, source = entries.clamp(min=0)
        to_source, to_target = ((values * weights[f"{name}.{end}"]).sum(dim=1) for end in ("source", "target"))
        scores = F.leaky_relu(to_source[source] + to_target[target], 0.2)
        # A softmax does not change by what is taken off all of a node's scores; its own one is always among them.
        scores = scores - F.leaky_relu(to_source + to_target, 0.2)[target].detach()
        attention = torch.where((entries[0] >= 0)[:, None], scores.clamp(max=80).exp(), 0.0)
        total = torch.zeros_like(to_target).index_add(0, target, attention)
        sums = torch.zeros_like(values).index_add(0, target, attention[:, None] * values[source])
        return (sums / total[:, None].clamp(min=1e-30)).reshape(graph.num_nodes, -1) + weights[f"{name}.bias"]

    def propagation(self, graph: Graph) -> dict[str, sparse.sparray]:
        """Raise: what attention multiplies with depends on the features."""
        raise NotImplementedError


REFERENCE_MODELS: Mapping[str, type[Model]] = {**MODELS, "appnp": APPNP, "gat": GAT}
"""The models of centralised references by name."""
