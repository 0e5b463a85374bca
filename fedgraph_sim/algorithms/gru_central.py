"""Forecasting by one party that holds all sensors' series: a reference, not a federated method.

Exchange: none.
"""

from typing import ClassVar, Literal

from fedgraph_sim.algorithms.gru_local import GruLocal


class GruCentral(GruLocal):
    """One encoder and decoder trained on all sensors; a minibatch is `batch_size` windows of every sensor."""

    summary: ClassVar[str] = "time series: one party trains a GRU encoder and decoder on all sensors"
    pooled: ClassVar[bool] = True

    name: Literal["gru_central"] = "gru_central"  # type: ignore[assignment]
