"""What a client holds, as tensors, whatever the kind: the few things that the engine has to know of it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.replay import Programs
from fedgraph_sim.engine.series_tensors import SeriesTensors


class Batch(Protocol):
    """The data of several clients, stacked for steps that run all of them in one computation."""

    @property
    def programs(self) -> Programs:
        """What steps did to the batch."""

    def tensors(self) -> dict[str, Any]:
        """Return what ``torch.vmap`` maps over to get at one client's data."""

    def one(self, own: dict[str, Any]) -> "ClientData":
        """Return one client's data inside ``torch.vmap``, `own` being its part of `tensors`."""


class ClientData(Protocol):
    """Tensors of one client."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes: clients of like numbers run together."""

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""

    @classmethod
    def stack(cls, parts: Sequence[Self]) -> Batch:
        """Put the data of several clients together, padded to the same number of nodes."""


def client_data(part: Any, device: torch.device, link_split: LinkSplit | None = None) -> ClientData:
    """Return what a store holds of a client as tensors on `device`; of a graph's links some are examples."""
    return TENSORS[type(part)](part, device, link_split)


TENSORS: dict[type, Callable[[Any, torch.device, LinkSplit | None], ClientData]] = {
    Graph: GraphTensors.of,
    SensorSeries: SeriesTensors.of,
}
"""How each type that a store holds becomes tensors."""
