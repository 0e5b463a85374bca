"""Centralised training: one party holds the whole, unsplit graph. The upper reference, not a federated method.

Exchange: none.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from fedgraph_sim.algorithms.local import Local
from fedgraph_sim.algorithms.nn.models import Model
from fedgraph_sim.algorithms.nn.reference_models import HEADS, REFERENCE_MODELS


class Centralized(Local):
    """Local training of the one client that holds everything."""

    summary: ClassVar[str] = "one party holds the whole graph; the reference without federation"
    pooled: ClassVar[bool] = True

    name: Literal["centralized"] = "centralized"  # type: ignore[assignment]
    model: Literal["gcn", "sage", "mlp", "appnp", "gat"] = Field(  # type: ignore[assignment]
        "gcn",
        description="two layers of this kind and a linear head; appnp: mlp, and 10 steps of propagation behind it",
    )

    @model_validator(mode="after")
    def _heads_fit(self) -> "Centralized":
        if self.model == "gat" and self.hidden % HEADS:
            raise ValueError(f"hidden={self.hidden} must be a multiple of the {HEADS} heads of gat")
        return self

    @property
    def network(self) -> Model:
        """The model as a function of weights."""
        kind = REFERENCE_MODELS[self.model]
        return kind(hidden=self.hidden, dropout=self.dropout, head=not self.predicts_links)
