"""Which client lives in which actor, and what each actor asks of the cluster; decided and checked before the start."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

import psutil

from fedgraph_sim.counts import counted
from fedgraph_sim.engine.config import EngineConfig
from fedgraph_sim.errors import ConfigError

MEMORY_PER_ACTOR = 400 * 2**20
"""Bytes that an actor takes before it holds any data: Python, Ray and torch."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """What one machine of the cluster has: CPUs, GPUs, and in bytes its memory and the object store beside it.

    `server_gpus` is what the server takes of the GPUs; `id` and `host` are Ray's number and the name of the machine,
    both empty where there is no Ray.
    """

    cpus: float
    gpus: float
    memory: float
    server_gpus: float = 0
    object_store: float = 0
    id: str = ""
    host: str = ""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The clients of each actor, the CPUs and GPUs that each actor reserves, and the GPUs of the server."""

    actors: tuple[tuple[int, ...], ...]
    cpus: float
    gpus: float
    server_gpus: float = 0
    reason: str

    def describe(self) -> str:
        """Return one line for the user: what was chosen and why."""
        sizes = sorted({len(clients) for clients in self.actors})
        held = "" if len(sizes) == 1 else f"{sizes[0]} to "
        share = f"{self.cpus:g} CPU" + (f" and {self.gpus:g} GPU" if self.gpus else "")
        actors = counted(len(self.actors), "actor")
        server = f"; {self.server_gpus:g} GPU for the server" if self.server_gpus else ""
        return f"{actors} of {held}{counted(sizes[-1], 'client')}, {share} each ({self.reason}){server}"


def this_machine() -> Node:
    """Return this machine without its GPUs: what the clients of an inline run are packed for."""
    return Node(cpus=os.cpu_count() or 1, gpus=0, memory=psutil.virtual_memory().available)


def place(sizes: Sequence[int], engine: EngineConfig, nodes: Sequence[Node]) -> Placement:
    """Pack clients of the given `sizes` (nodes + edges) into actors that fit on `nodes`, the server's machine first.

    Raises:
        ConfigError: when what was asked for does not fit the cluster, with the numbers.
    """
    if engine.server_gpus:
        if not _slots("GPU", engine.server_gpus, nodes[0]):
            raise ConfigError(
                f"engine.server_gpus={engine.server_gpus:g} is more than the GPUs of the server's machine, "
                f"{nodes[0].gpus:g}; lower it"
            )
        nodes = [replace(nodes[0], server_gpus=engine.server_gpus), *nodes[1:]]
    if engine.gpus_per_client == "auto" and any(node.gpus >= 1 for node in nodes):
        nodes = [node for node in nodes if node.gpus >= 1]  # all GPUs are shared out, so no actor goes elsewhere
    num_clients = len(sizes)
    if engine.clients_per_actor == "auto":
        num_actors, reason = _actors_that_fit(num_clients, engine, nodes)
    else:
        num_actors = ceil(num_clients / engine.clients_per_actor)
        fits = sum(floor(0.8 * node.memory / MEMORY_PER_ACTOR) for node in nodes)
        if num_actors > max(1, fits):
            raise ConfigError(
                f"engine.clients_per_actor={engine.clients_per_actor} makes {counted(num_actors, 'actor')}, but the "
                f"memory takes about {fits}, at {MEMORY_PER_ACTOR // 2**20} MiB each; raise it"
            )
        reason = f"engine.clients_per_actor={engine.clients_per_actor}"
    cpus = _share("CPU", engine.cpus_per_client, num_actors, nodes)
    gpus = _share("GPU", engine.gpus_per_client, num_actors, nodes)
    fits = sum(min(_slots("CPU", cpus, node), _slots("GPU", gpus, node)) for node in nodes)
    if num_actors > fits:
        raise ConfigError(
            f"{counted(num_actors, 'actor')} of {cpus:g} CPU and {gpus:g} GPU each cannot be placed: the machines that "
            f"have both take {fits}; lower engine.cpus_per_client or engine.gpus_per_client, or raise "
            "engine.clients_per_actor"
        )
    actors = pack(sizes, num_actors)
    return Placement(actors=actors, cpus=cpus, gpus=gpus, server_gpus=engine.server_gpus, reason=reason)


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


def capacity(engine: EngineConfig, nodes: Sequence[Node]) -> tuple[int, str]:
    """Return how many actors fit on `nodes`, at least one, and what limits them: "memory", "CPUs" or "GPUs"."""
    cpus = 1.0 if engine.cpus_per_client == "auto" else engine.cpus_per_client
    gpus = 0.0 if engine.gpus_per_client == "auto" else engine.gpus_per_client
    slots = {
        "memory": [floor(0.8 * node.memory / MEMORY_PER_ACTOR) for node in nodes],
        "CPUs": [_slots("CPU", cpus, node) for node in nodes],
        "GPUs": [_slots("GPU", gpus, node) for node in nodes],
    }
    limit = max(1, sum(map(min, zip(*slots.values(), strict=True))))
    return limit, min(slots, key=lambda resource: sum(slots[resource]))


def _actors_that_fit(num_clients: int, engine: EngineConfig, nodes: Sequence[Node]) -> tuple[int, str]:
    limit, scarce = capacity(engine, nodes)
    if num_clients <= limit:
        return num_clients, "one client per actor fits"
    return limit, f"as many actors as the {scarce} take"


def _amount(kind: str, node: Node) -> float:
    return node.cpus if kind == "CPU" else node.gpus


def _slots(kind: str, share: float, node: Node) -> int:
    """Return how many actors with this share fit on `node`; Ray keeps a GPU fraction within one device."""
    if share == 0:
        return 10**9
    if kind == "CPU":
        return floor(node.cpus / share + 1e-9)
    free = floor(node.gpus) - node.server_gpus
    if share >= 1:
        return floor(free / share + 1e-9)
    return floor(free) * floor(1 / share + 1e-9) + floor((free - floor(free)) / share + 1e-9)


def _share(kind: str, wanted: float | str, num_actors: int, nodes: Sequence[Node]) -> float:
    if isinstance(wanted, str):
        available = sum(floor(_amount(kind, node)) for node in nodes)
        if not available:
            return 0.0
        # The most that all can have: all of a device, a half, a third, ...
        for per_device in range(ceil(num_actors / available), 10_001):
            share = floor(10_000 / per_device) / 10_000
            if sum(_slots(kind, share, node) for node in nodes) >= num_actors:
                return share
        raise ConfigError(
            f"{counted(num_actors, 'actor')} cannot share {counted(available, kind)}, since a share is at least "
            "0.0001; raise engine.clients_per_actor"
        )
    fits = sum(_slots(kind, wanted, node) for node in nodes)
    if num_actors > fits:
        there = sum(_amount(kind, node) for node in nodes)
        raise ConfigError(
            f"engine.{kind.lower()}s_per_client={wanted:g} for {counted(num_actors, 'actor')} asks for "
            f"{wanted * num_actors:g} {kind}s, but the cluster has {there:g} and takes {fits} such "
            "actors; lower it, or raise engine.clients_per_actor"
        )
    return float(wanted)
