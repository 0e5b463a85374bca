"""LocSage+ (Zhang et al., NeurIPS 2021): LocSage on subgraphs that each client mended on its own.

Exchange: set-up, the server's initial weights go to every client; a round, nothing.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.locsage import LocSage
from fedgraph_sim.algorithms.neighbor_generation import NeighborGeneration
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree


class LocSagePlus(NeighborGeneration, LocSage):
    """Each client for itself, with a generator of missing neighbours that only it trained."""

    summary: ClassVar[str] = "each client alone, with generated neighbours; no communication (Zhang et al., 2021)"

    name: Literal["locsage_plus"] = "locsage_plus"  # type: ignore[assignment]

    def setup(self, fed: Federation) -> Tree:
        """Do as LocSage does; let all clients train their generators, and mend their graphs."""
        server = super().setup(fed)
        if self.mending != "none":
            fed.call(self.pretrain)
            fed.call(self.mend)
        return server
