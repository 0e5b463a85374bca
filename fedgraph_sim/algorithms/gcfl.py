"""GCFL and GCFL+ (Xie et al., Federated Graph Classification over Non-IID Graphs, NeurIPS 2021), for nodes.

Exchange: set-up as in FedAvg; in a round, each participant's cluster model goes down, and what training changed in it
comes up, with GCFL+ also the size of the last gradient. Clustering takes place on the server.
"""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.client_axis import pick, put, weighted_sum
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree, tree_map


class Gcfl(FedAvg):
    """FedAvg inside clusters of clients, which are cut in two while their members pull in different directions.

    A cluster C of more than two clients is cut after a round in which ``|mean_C dW_k| < eps1`` (as a whole it has come
    to rest) and ``max_C |dW_k| > eps2`` (its members have not), dW_k being the change of all weights of client k.
    Sizes count in units of ``lr * local_epochs * sqrt(number of weights)``, what Adam's steps come to when they move
    every weight as far as they can, so that the thresholds suit every model and learning rate. The paper's are
    absolute: those of the released code for one data set among 10 and 30 clients, 0.025 to 0.04 and 0.045 to 0.08, are
    0.16 to 0.25 and 0.28 to 0.51 of that unit. The default of `eps1` lies among them; that of `eps2` is lower, because
    the updates of small subgraphs shrink below them while whole clusters are still apart.

    The cut is the minimum cut (Stoer and Wagner, 1997) of the complete graph of the members, with weights

    ``gcfl``: 1 + cos(dW_i, dW_j) ·
    ``gcfl+``: max D - D_ij, D being the distances by dynamic time warping of the sequences of the members' last
    `seq_length` gradient norms, once all have as many since the last cut of theirs.

    Then W_C <- W_C + sum_C n_k dW_k / sum_C n_k over the participants. A member's latest change stands for it in rounds
    in which it does not take part, and a cluster is not cut before each member has given one.
    """

    summary: ClassVar[str] = "FedAvg inside clusters of clients with like updates (Xie et al., 2021)"
    has_global_model: ClassVar[bool] = False

    name: Literal["gcfl"] = "gcfl"  # type: ignore[assignment]
    variant: Literal["gcfl", "gcfl+"] = Field(
        "gcfl", description="what clients are compared by: directions of updates, or sequences of gradient norms"
    )
    eps1: float = Field(0.2, ge=0, description="a cluster may be cut when its mean update is smaller than this")
    eps2: float = Field(0.2, ge=0, description="a cluster may be cut when its largest update is larger than this")
    warmup: int = Field(20, ge=0, description="rounds before the first cut", json_schema_extra={"unit": "rounds"})
    seq_length: int = Field(
        5, ge=1, le=10_000, description="gcfl+: gradient norms that are compared", json_schema_extra={"unit": "rounds"}
    )
    standardize: bool = Field(False, description="gcfl+: divide each sequence by its standard deviation")

    @property
    def optimizer(self) -> Adam:
        """Adam, which for GCFL+ also remembers the size of the last gradient."""
        kind = _WatchedAdam if self.variant == "gcfl+" else Adam
        return kind(lr=self.lr, weight_decay=self.weight_decay)

    def setup(self, fed: Federation) -> Tree:
        """Begin with one cluster of all clients."""
        server = super().setup(fed)
        weights, num_clients = server["weights"], len(fed.clients)
        return {
            "models": tree_map(lambda leaf: leaf[None], weights),
            "cluster": torch.zeros(num_clients, dtype=torch.long),
            "updates": tree_map(lambda leaf: torch.zeros_like(leaf).expand(num_clients, *leaf.shape), weights),
            "norms": torch.zeros(num_clients, self.seq_length),
            "num_norms": torch.zeros(num_clients, dtype=torch.long),
            "client_weights": server["client_weights"],
        }

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Train inside the clusters, cut those that have to be cut, average inside what is left."""
        participants = fed.sample()
        models = pick(server["models"], server["cluster"][list(participants)].tolist())
        replies = fed.call_each(self.train, models, clients=participants)
        server = self.remembered(server, replies)
        if fed.round > self.warmup:
            server = self.cut(server)
        return self.averaged(server, replies)

    @client_step(batched=True)
    def train(self, client: Client, weights: Weights) -> Tree:
        """Train the cluster's weights on the own subgraph; return how they changed."""
        trained = self.fit(client, weights)
        reply: Tree = {"update": {name: leaf - weights[name] for name, leaf in trained.items()}}
        if self.variant == "gcfl+":
            reply["gradient_norm"] = client.state["optimizer"]["gradient_norm"]
        return reply

    def remembered(self, server: Tree, replies: Replies) -> Tree:
        """Take note of the latest update, and of the size of the latest gradient, of each client that answered."""
        clients = list(replies.clients)
        num_norms, norms = server["num_norms"].clone(), server["norms"]
        num_norms[clients] += 1
        if self.variant == "gcfl+":
            latest = replies.stack("gradient_norm")[:, None]
            norms = put(norms, clients, torch.cat([norms[clients][:, 1:], latest], dim=1))
        updates = put(server["updates"], clients, replies.stack("update"))
        return server | {"updates": updates, "norms": norms, "num_norms": num_norms}

    def cut(self, server: Tree) -> Tree:
        """Divide every cluster that has to be divided in two; the second half becomes a new cluster, the last one."""
        updates, cluster, num_norms = server["updates"], server["cluster"].clone(), server["num_norms"].clone()
        needed = self.seq_length if self.variant == "gcfl+" else 1
        unit = self.lr * self.local_epochs * sqrt(sum(leaf[0].numel() for leaf in updates.values()))
        sizes = size(updates) / unit
        parents = list(range(int(cluster.max()) + 1))
        for parent in tuple(parents):
            members = (cluster == parent).nonzero().flatten()
            if len(members) <= 2 or num_norms[members].min() < needed or sizes[members].max() <= self.eps2:
                continue
            own = pick(updates, members.tolist())
            mean = weighted_sum(own, torch.full((1, len(members)), 1 / len(members)))
            if size(mean) / unit >= self.eps1:
                continue
            second = minimum_cut(self.similarity(own, server["norms"][members]))
            cluster[members[second]] = len(parents)
            parents.append(parent)
            num_norms[members] = 0
        models = pick(server["models"], parents)
        return server | {"models": models, "cluster": cluster, "num_norms": num_norms}

    def similarity(self, updates: Weights, norms: Tensor) -> NDArray[np.float64]:
        """Return how alike any two of K clients are, [K, K] >= 0, from their updates or their gradient norms [K, L]."""
        if self.variant == "gcfl":
            return 1 + cosines(updates)
        distances = warping_distances(norms.double().numpy(), standardize=self.standardize)
        likeness: NDArray[np.float64] = distances.max() - distances
        return likeness

    def averaged(self, server: Tree, replies: Replies) -> Tree:
        """Move each cluster's model by the mean update of its members that took part, weighted by training nodes."""
        clients = list(replies.clients)
        share = server["client_weights"][clients]
        is_member = server["cluster"][clients] == torch.arange(int(server["cluster"].max()) + 1)[:, None]
        weights = torch.where(is_member, share, 0.0)
        # A cluster of which nobody with training nodes took part stays as it is.
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
        moves = weighted_sum(replies.stack("update"), weights)
        return server | {"models": tree_map(torch.add, server["models"], moves)}


@dataclass(frozen=True, kw_only=True)
class _WatchedAdam(Adam):
    """Adam whose moments also hold the size of the last gradient."""

    def init(self, weights: Weights) -> Tree:
        moments: Tree = super().init(weights)
        return moments | {"gradient_norm": torch.zeros_like(moments["step"])}

    def update(self, weights: Weights, gradients: Weights, moments: Tree, *, where: Tensor) -> tuple[Weights, Tree]:
        weights, moments = super().update(weights, gradients, moments, where=where)
        one = tree_map(lambda leaf: leaf[None], gradients)
        return weights, moments | {"gradient_norm": size(one)[0]}


def size(vectors: Weights) -> Tensor:
    """Return the Euclidean norms [n] of n vectors, given in parts of [n, ...]."""
    parts = [torch.linalg.vector_norm(leaf.flatten(start_dim=1), dim=1) for leaf in vectors.values()]
    sizes: Tensor = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    return sizes


def cosines(vectors: Weights) -> NDArray[np.float64]:
    """Return the cosine of the angle between any two of n vectors, [n, n], given in parts of [n, ...]; 0 with zero."""
    flat = [leaf.flatten(start_dim=1) for leaf in vectors.values()]
    products = torch.stack([leaf @ leaf.T for leaf in flat]).sum(dim=0).double()
    sizes = products.diagonal().sqrt()
    return (products / (sizes[:, None] * sizes).clamp(min=1e-12)).clamp(-1, 1).numpy()


def warping_distances(sequences: NDArray[np.float64], *, standardize: bool = False) -> NDArray[np.float64]:
    """Return the distances by dynamic time warping of n sequences [n, length], [n, n].

    D(s, t) is the root of the least sum of (s_i - t_j)^2 along a path from (1, 1) to (length, length) that at each step
    goes on in s, in t or in both (Sakoe and Chiba, 1978). All pairs are computed at once, one cell (i, j) at a time.
    """
    if standardize:
        spread = sequences.std(axis=1, keepdims=True)
        sequences = np.divide(sequences, spread, out=np.zeros_like(sequences), where=spread > 0)
    n, length = sequences.shape
    costs = np.full((length + 1, length + 1, n, n), np.inf)
    costs[0, 0] = 0
    for i in range(length):
        for j in range(length):
            step = (sequences[:, None, i] - sequences[None, :, j]) ** 2
            costs[i + 1, j + 1] = step + np.minimum(np.minimum(costs[i, j], costs[i, j + 1]), costs[i + 1, j])
    distances: NDArray[np.float64] = np.sqrt(costs[length, length])
    return distances


def minimum_cut(similarity: NDArray[np.float64]) -> list[int]:
    """Return the half without node 0 of the minimum cut (Stoer and Wagner) of the complete graph with these weights."""
    import networkx

    graph = networkx.Graph()
    pairs = zip(*np.triu_indices(len(similarity), k=1), strict=True)
    graph.add_weighted_edges_from((int(i), int(j), float(similarity[i, j])) for i, j in pairs)
    _, halves = networkx.stoer_wagner(graph)
    return sorted(next(half for half in halves if 0 not in half))
