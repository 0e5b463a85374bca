"""How alike clients are, and who belongs together."""

from collections.abc import Sequence

import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor


def cosine_similarity(parts: Sequence[Tensor]) -> Tensor:
    """Return the cosine of the angle between any two of K vectors, [K, K], each given in `parts` of [K, ...].

    A vector of zeros resembles none, itself included: 0.
    """
    flat = [part.flatten(start_dim=1).float() for part in parts]
    products = torch.stack([part @ part.T for part in flat]).sum(dim=0)
    squares = products.diagonal()
    scale = torch.where(squares > 0, squares.clamp(min=torch.finfo().tiny).rsqrt(), 0.0)
    return (scale[:, None] * products * scale).clamp(-1, 1)


def same_community(similarity: Tensor, num_communities: int) -> Tensor:
    """Return which of K clients belong together, [K, K], in at most `num_communities` groups.

    Hierarchical clustering of the distances ``1 - similarity`` by average linkage, cut at that number of groups.
    """
    if len(similarity) <= num_communities:
        return torch.eye(len(similarity), dtype=torch.bool)
    distances = (1 - similarity.double()).fill_diagonal_(0).clamp(min=0).numpy()
    tree = linkage(squareform(distances, checks=False), method="average")
    community = torch.from_numpy(fcluster(tree, num_communities, criterion="maxclust"))
    return community[:, None] == community
