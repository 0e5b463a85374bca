"""Centralised training: one party holds the whole, unsplit graph. The upper reference, not a federated method.

Exchange: none.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.local import Local


class Centralized(Local):
    """Local training of the one client that holds everything."""

    summary: ClassVar[str] = "one party holds the whole graph; the reference without federation"
    pooled: ClassVar[bool] = True

    name: Literal["centralized"] = "centralized"  # type: ignore[assignment]
