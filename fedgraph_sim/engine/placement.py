"""Which client lives in which actor, and what each actor asks of the cluster; decided and checked before the start."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from fedgraph_sim.engine.config import EngineConfig
from fedgraph_sim.errors import ConfigError

MEMORY_PER_ACTOR = 400 * 2**20
"""Bytes that an actor takes before it holds any data: Python, Ray and torch."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """What one machine of the cluster has: CPUs, GPUs, and memory in bytes."""

    cpus: float
    gpus: float
    memory: float


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The clients of each actor, and the CPUs and GPUs that each actor reserves."""

    actors: tuple[tuple[int, ...], ...]
    cpus: float
    gpus: float
    reason: str

    def describe(self) -> str:
        """Return one line for the user: what was chosen and why."""
        sizes = sorted({len(clients) for clients in self.actors})
        held = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        share = f"{self.cpus:g} CPU" + (f" and {self.gpus:g} GPU" if self.gpus else "")
        return f"{len(self.actors)} actors of {held} clients, {share} each ({self.reason})"


def place(sizes: Sequence[int], engine: EngineConfig, nodes: Sequence[Node]) -> Placement:
    """Pack clients of the given `sizes` (nodes + edges) into actors that fit on `nodes`.

    Raises:
        ConfigError: when what was asked for does not fit the cluster, with the numbers.
    """
    num_clients = len(sizes)
    if engine.clients_per_actor == "auto":
        num_actors, reason = _actors_that_fit(num_clients, engine, nodes)
    else:
        num_actors = ceil(num_clients / engine.clients_per_actor)
        reason = f"engine.clients_per_actor={engine.clients_per_actor}"
    cpus = _share("cpus", engine.cpus_per_client, num_actors, [node.cpus for node in nodes])
    gpus = _share("gpus", engine.gpus_per_client, num_actors, [node.gpus for node in nodes])
    return Placement(actors=pack(sizes, num_actors), cpus=cpus, gpus=gpus, reason=reason)


def pack(sizes: Sequence[int], num_actors: int) -> tuple[tuple[int, ...], ...]:
    """Give each client, largest first, to the actor with the least to do among those with a free place."""
    places = ceil(len(sizes) / num_actors)
    actors: list[list[int]] = [[] for _ in range(num_actors)]
    loads = [0] * num_actors
    for client in sorted(range(len(sizes)), key=lambda client: -sizes[client]):
        actor = min((a for a in range(num_actors) if len(actors[a]) < places), key=lambda a: (loads[a], a))
        actors[actor].append(client)
        loads[actor] += sizes[client]
    return tuple(tuple(sorted(clients)) for clients in actors if clients)


def _actors_that_fit(num_clients: int, engine: EngineConfig, nodes: Sequence[Node]) -> tuple[int, str]:
    limits = {"memory": sum(floor(0.8 * node.memory / MEMORY_PER_ACTOR) for node in nodes)}
    limits["CPUs"] = _slots(
        1.0 if engine.cpus_per_client == "auto" else engine.cpus_per_client, [n.cpus for n in nodes]
    )
    if engine.gpus_per_client != "auto":
        limits["GPUs"] = _slots(engine.gpus_per_client, [node.gpus for node in nodes])
    limit, resource = min((max(1, count), resource) for resource, count in limits.items())
    if num_clients <= limit:
        return num_clients, "one client per actor fits"
    return limit, f"as many actors as the {resource} take"


def _slots(share: float, amounts: Sequence[float]) -> int:
    """Return how many actors with this share fit, each on one machine, a fraction within one device."""
    if share == 0:
        return 10**9
    if share < 1:
        return sum(floor(amount) * floor(1 / share + 1e-9) for amount in amounts)
    return sum(floor(amount / share) for amount in amounts)


def _share(kind: str, wanted: float | str, num_actors: int, amounts: Sequence[float]) -> float:
    available = sum(floor(amount) for amount in amounts)
    if isinstance(wanted, str):
        per_device = ceil(num_actors / available) if available else 0
        share = floor(10_000 / per_device) / 10_000 if per_device else 0.0
        if available and not share:
            raise ConfigError(
                f"{num_actors} actors cannot share {available} {kind[:-1].upper()}(s), since a share is at least "
                "0.0001; raise engine.clients_per_actor"
            )
        return share
    fits = _slots(wanted, amounts)
    if num_actors > fits:
        raise ConfigError(
            f"engine.{kind}_per_client={wanted:g} for {num_actors} actors asks for {wanted * num_actors:g} "
            f"{kind[:-1].upper()}s, but the cluster has {sum(amounts):g} and takes {fits} such actors; "
            f"lower it, or raise engine.clients_per_actor"
        )
    return float(wanted)
