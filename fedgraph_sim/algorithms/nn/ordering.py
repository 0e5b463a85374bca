"""Random orders that are functions of a stream, also under ``torch.vmap``."""

import torch
from torch import Tensor

from fedgraph_sim.engine.random_stream import RandomStream


def shuffled_ranks(mask: Tensor, random: RandomStream) -> Tensor:
    """Return [n] numbers: 0, 1, ... in random order for the entries in `mask` [n], and larger ones for all others."""
    keys = torch.where(mask, random.bits(len(mask)).long(), 1 << 40)
    return torch.argsort(torch.argsort(keys, stable=True), stable=True)
