"""GlobSage: a GraphSAGE on the whole, unsplit graph (Zhang et al., NeurIPS 2021), the reference above FedSage.

Exchange: none.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.centralized import Centralized
from fedgraph_sim.algorithms.graphsage import GraphSage


class GlobSage(GraphSage, Centralized):
    """One party that holds everything trains the model of `fedsage`."""

    summary: ClassVar[str] = "one party holds the whole graph and trains a GraphSAGE (Zhang et al., 2021)"

    name: Literal["globsage"] = "globsage"  # type: ignore[assignment]
