"""LocSage: a GraphSAGE on each client's own subgraph (Zhang et al., NeurIPS 2021), the reference below FedSage.

Exchange: set-up, the server's initial weights go to every client; a round, nothing.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.graphsage import GraphSage
from fedgraph_sim.algorithms.local import Local


class LocSage(GraphSage, Local):
    """Each client for itself. The paper judges every client's model on the test nodes of all, which it never saw."""

    summary: ClassVar[str] = "a GraphSAGE of each client alone; no communication (Zhang et al., 2021)"

    name: Literal["locsage"] = "locsage"  # type: ignore[assignment]
