"""Clients that are slow or drop out: who replies in a round, and how long it would take on devices of its own.

What is simulated is a clock beside the run; nothing waits. Server and algorithm see fewer replies, as they would.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.seeds import keys_for, seed_for


class SystemConfig(ConfigTable):
    """Devices and network of the clients: the ``[system]`` table."""

    drop: float = Field(
        0, ge=0, lt=1, description="probability that a client drops out of a round: it gets and sends nothing"
    )
    compute: float = Field(
        0,
        ge=0,
        le=1e9,
        description="seconds of a client step per 1,000 nodes and edges of the client, or per 1,000 sensors",
        json_schema_extra={"unit": "s"},
    )
    slowdown: float = Field(
        1,
        ge=1,
        le=1e9,
        description="how many times slower than the fastest client the slowest may be; factors are log-uniform between "
        "1 and this, one for each client and the whole run",
    )
    latency: float = Field(
        0,
        ge=0,
        le=1e9,
        description="seconds of a message on its way, whatever its size",
        json_schema_extra={"unit": "s"},
    )
    bandwidth_down: float = Field(
        0,
        ge=0,
        le=1e9,
        description="what a client receives at most; 0: no limit",
        json_schema_extra={"unit": "Mbit/s"},
    )
    bandwidth_up: float = Field(
        0,
        ge=0,
        le=1e9,
        description="what a client sends at most; 0: no limit",
        json_schema_extra={"unit": "Mbit/s"},
    )
    deadline: float = Field(
        0,
        ge=0,
        description="simulated seconds after a round's begin from which replies come too late; 0: never",
        json_schema_extra={"unit": "s"},
    )

    @field_validator("bandwidth_down", "bandwidth_up")
    @classmethod
    def _none_or_a_bit_per_second(cls, value: float) -> float:
        if 0 < value < 1e-6:
            raise ValueError("must be 0, or at least 1e-6")
        return value


class System:
    """The clients' devices in one round after another. `sizes` says how much each client has to compute on."""

    def __init__(self, config: SystemConfig, *, sizes: Sequence[int], seed: int) -> None:
        self.config = config
        self._seed = seed
        clients = np.arange(len(sizes), dtype=np.int64)
        factors = config.slowdown ** uniform(seed_for(seed, "slowdown"), clients)
        self._seconds_compute = config.compute * np.array(sizes, float) / 1000 * factors
        self.begin(round=0)

    def begin(self, *, round: int) -> None:
        """Begin a round at second 0, with everybody there."""
        self.missing: set[int] = set()
        self.elapsed = 0.0
        self._draws = seed_for(self._seed, "drop", round)

    def present(self, clients: tuple[int, ...]) -> tuple[int, ...]:
        """Return those of `clients` that the server still hears of in this round, at least one."""
        draws = uniform(self._draws, np.array(clients, np.int64))
        self.missing |= {client for client, draw in zip(clients, draws, strict=True) if draw < self.config.drop}
        left = tuple(client for client in clients if client not in self.missing)
        if left:
            return left
        kept = clients[int(draws.argmax())]
        self.missing.discard(kept)
        return (kept,)

    def in_time(
        self, clients: tuple[int, ...], num_bytes_down: NDArray[np.int64], num_bytes_up: NDArray[np.int64]
    ) -> tuple[int, ...]:
        """Move the clock on by one call, and return the clients whose replies came before the deadline, at least one.

        A client's reply takes 2 latencies + 8 bytes_down / bandwidth_down + compute + 8 bytes_up / bandwidth_up. The
        server waits for the slowest, or until the deadline if somebody is missing.
        """
        config = self.config
        seconds = 2 * config.latency + self._seconds_compute[list(clients)]
        for size, bandwidth in ((num_bytes_down, config.bandwidth_down), (num_bytes_up, config.bandwidth_up)):
            if bandwidth:
                seconds = seconds + 8 * size / (1e6 * bandwidth)
        arrival = self.elapsed + seconds
        late = arrival > (config.deadline or np.inf)
        if late.all():
            late = arrival > arrival.min()
        self.missing |= {client for client, is_late in zip(clients, late, strict=True) if is_late}
        self.elapsed = float(arrival[~late].max())
        return tuple(client for client, is_late in zip(clients, late, strict=True) if not is_late)

    @property
    def seconds(self) -> float:
        """How long the round has taken: up to the deadline where somebody was waited for in vain."""
        return max(self.elapsed, self.config.deadline) if self.missing else self.elapsed


def system_of(config: SystemConfig, *, sizes: Sequence[int], seed: int) -> System | None:
    """Return the clients' devices; None where the configuration says nothing of them, and nobody has to wait."""
    return None if config == SystemConfig() else System(config, sizes=sizes, seed=seed)


def uniform(seed: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number in [0, 1) for each of `numbers`, a function of it and of `seed` alone."""
    drawn: NDArray[np.float64] = keys_for(seed, numbers) / 2.0**63
    return drawn
