"""One client per sensor: what a client reads itself is all that it holds."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.errors import ConfigError


class Sensor(Partitioner):
    """Each sensor is a client, in the order of the data; `clients` is their number, or 0."""

    summary: ClassVar[str] = "time series: each sensor is a client"
    divides: ClassVar[tuple[str, ...]] = ("time series",)

    name: Literal["sensor"] = Field("sensor", description="name of the partitioner")

    def assign(self, graph: Any, num_clients: int, seed: int) -> list[NDArray[np.int64]]:
        """Return one sensor for each client. Raises `ConfigError` for another number of clients."""
        if num_clients not in (0, graph.num_nodes):
            raise ConfigError(
                f"clients={num_clients} but the data set has {counted(graph.num_nodes, 'sensor')}, and each is a "
                "client; leave clients out, or set it to 0"
            )
        return [np.array([node]) for node in range(graph.num_nodes)]
