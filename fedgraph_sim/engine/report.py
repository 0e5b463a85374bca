"""What a coordinator tells whoever started it, as the run goes on."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from fedgraph_sim.engine.evaluation import Evaluation
from fedgraph_sim.engine.host import HostInfo


@dataclass(frozen=True, kw_only=True)
class Started:
    """All clients are there; the first round begins. `hosts` are the actors, or the hosts of an inline run."""

    hosts: tuple[HostInfo, ...]


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """One finished round. `evaluation` is None in rounds that are not evaluated; bytes are this round's.

    `seconds` is the time from the round's begin to the next one's, or to its own end where it is waited for. Its parts:
    client steps in the slowest place (`seconds_compute`), the server's own work (`seconds_server`), the evaluation in
    the slowest place (`seconds_evaluation`), which may reach into the next round, and all else, above all the calls
    and the sums in the actors (`seconds_transport`). `seconds_simulated` is what it would have taken on the devices
    that the configuration describes under ``[system]``; 0 where it describes none.
    """

    round: int
    num_participants: int
    seconds: float
    seconds_compute: float
    seconds_transport: float
    seconds_server: float
    seconds_evaluation: float
    seconds_simulated: float
    bytes_up: int
    bytes_down: int
    evaluation: Evaluation | None

    def without_forecast(self) -> "RoundReport":
        """Return the report without the curves of its evaluation, which are large and wanted of one round alone."""
        if self.evaluation is None or not self.evaluation.forecast:
            return self
        return replace(self, evaluation=replace(self.evaluation, forecast={}))

    def without_clients(self) -> "RoundReport":
        """Return the report without what its evaluation says of single clients: all that the summary wants of it."""
        if self.evaluation is None:
            return self
        return replace(self, evaluation=Evaluation(metrics=self.evaluation.metrics, clients=(), values={}, counts={}))


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """Rounds after `round` are void and come again, because of `reason`; `num_bytes` were sent up to it.

    A run that goes on from a checkpoint begins with this, without a reason.
    """

    round: int
    reason: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the run ended; `summary` is what ``summary.json`` holds, `error` says why a run failed."""

    status: Literal["completed", "interrupted", "failed"]
    summary: dict[str, Any]
    error: str = ""
    details: str = ""


Event = Started | RoundReport | RolledBack | Outcome
