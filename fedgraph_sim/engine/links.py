"""A client's links, and pairs of its nodes without a link, as tensors for a model that predicts links."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.link_split import LinkExamples, pair_number
from fedgraph_sim.engine.random_stream import RandomStream


@dataclass(frozen=True, eq=False)
class Links:
    """The m links of one client and as many pairs of its nodes that are no link, whatever a link's role.

    Shapes: `linked` and `unlinked` [2, m], a column being a pair of nodes; the three masks [m], which give the role of
    a link and of the pair without one at the same place; `before` [m]: the number of pairs without a link before each
    link in the order of `pair_number`; `num_unlinked` []: their number in all.
    """

    linked: Tensor
    unlinked: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    before: Tensor
    num_unlinked: Tensor

    @classmethod
    def of(cls, examples: LinkExamples, seed: int, device: torch.device) -> "Links":
        """Draw the pairs without a link, from `seed`, and move everything to `device`.

        They differ from each other where the graph has as many.
        """
        num_nodes, num_links = examples.visible.num_nodes, len(examples.role)
        num_unlinked = num_nodes * (num_nodes - 1) // 2 - num_links
        before = torch.from_numpy(pair_number(*examples.pairs) - np.arange(num_links))
        rng = np.random.default_rng(seed)
        chosen = rng.choice(num_unlinked, num_links, replace=num_unlinked < num_links)
        role = torch.from_numpy(examples.role).to(device)
        return cls(
            linked=torch.from_numpy(examples.pairs).to(device),
            unlinked=_pairs_without_link(before, torch.from_numpy(chosen)).to(device),
            train_mask=role == Role.TRAIN,
            val_mask=role == Role.VAL,
            test_mask=role == Role.TEST,
            before=before.to(device),
            num_unlinked=torch.tensor(num_unlinked, device=device),
        )

    @classmethod
    def stack(cls, links: Sequence["Links"]) -> "Links":
        """Put the links of several clients together, each tensor with a leading client axis.

        All are filled up to the same number of pairs; the filling has no role and counts as no link.
        """
        size = max(each.linked.shape[1] for each in links)
        filling = {"before": float(1 << 62)}  # beyond every number of a pair; torch pads with floats

        def filled(name: str, values: Tensor) -> Tensor:
            missing = size - values.shape[-1] if values.dim() else 0
            return torch.nn.functional.pad(values, (0, missing), value=filling.get(name, 0)) if missing else values

        parts = [each.tensors() for each in links]
        return cls(**{name: torch.stack([filled(name, part[name]) for part in parts]) for name in parts[0]})

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def draw(self, random: RandomStream) -> Tensor:
        """Return m pairs without a link [2, m], each drawn from all of them with equal probability."""
        numbers = random.integers(self.linked.shape[-1], self.num_unlinked.clamp(min=1))
        return _pairs_without_link(self.before, numbers)


def _pairs_without_link(before: Tensor, index: Tensor) -> Tensor:
    """Return the pairs [2, count] that are at `index` [count] among those without a link, by `pair_number`."""
    number = index + torch.searchsorted(before, index, right=True)
    # Exact in float64 up to 6e7 nodes: neighbouring numbers around a pair (0, high) are told apart.
    high = ((1 + (1 + 8 * number.double()).sqrt()) / 2).long()
    return torch.stack([number - high * (high - 1) // 2, high])
