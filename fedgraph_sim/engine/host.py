"""A host: some clients in one process. Under Ray it is an actor; inline it is a plain object."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgraph_sim.engine.algorithm import Algorithm, is_batched
from fedgraph_sim.engine.arrays import device_for, to_device
from fedgraph_sim.engine.batch import groups_of_like_size
from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.client_axis import gather, pick
from fedgraph_sim.engine.client_data import ClientData, client_data
from fedgraph_sim.engine.group import Group
from fedgraph_sim.engine.job import Job
from fedgraph_sim.engine.memory import keep_large_blocks
from fedgraph_sim.engine.tree import Tree, tree_map
from fedgraph_sim.seeds import keys_for


@dataclass(frozen=True, kw_only=True)
class HostInfo:
    """What a run reports of a host: its device, "cpu" or "cuda", and the share of padding among its batches' nodes."""

    device: str
    padding: float


class ClientHost:
    """Holds the data and states of its clients and runs client steps for them.

    A step that allows it runs for all clients of like size in one computation; every other step, and every step where
    `batched` is False, runs for one client after another.
    """

    def __init__(self, algorithm: Algorithm, data: Mapping[int, ClientData], *, batched: bool = False) -> None:
        assert data, "a host has at least one client"
        self._algorithm = algorithm
        self.batched = batched
        clients = list(data)
        chosen = groups_of_like_size([each.num_nodes for each in data.values()]) if batched else [range(len(clients))]
        self._groups = [Group({clients[at]: data[clients[at]] for at in group}) for group in chosen]

    def describe(self) -> HostInfo:
        """Return what a run reports of its hosts."""
        real = sum(group.num_nodes for group in self._groups)
        padded = sum(group.num_padded_nodes for group in self._groups) if self.batched else real
        return HostInfo(device=self._groups[0].device.type, padding=1 - real / padded)

    def run(self, call: Call) -> Tree | StepFailure:
        """Run the call's step for its clients; return their replies, each leaf with a leading client axis."""
        step = getattr(self._algorithm, call.step)
        together = is_batched(step) and self.batched
        keys = torch.from_numpy(keys_for(call.seed, np.array(call.clients, np.int64)))
        replies, places = [], []
        for group in self._groups:
            asked = [place for place, client in enumerate(call.clients) if client in group.position]
            if asked:
                clients = tuple(call.clients[place] for place in asked)
                own = replace(
                    call,
                    clients=clients,
                    shared=to_device(call.shared, group.device),
                    each=to_device(pick(call.each, asked), group.device),
                )
                run = group.run_together if together else group.run_in_turn
                reply = run(step, own, keys[asked].to(group.device))
                if isinstance(reply, StepFailure):
                    return reply
                replies.append(reply)
                places.append(asked)
        return gather(replies, places)

    def publish(self, tree: Tree) -> None:
        """Let all clients see `tree` from now on, in one copy."""
        for group in self._groups:
            group.public = to_device(tree, group.device)

    def restore(self, states: Mapping[int, Tree]) -> None:
        """Give clients other states, each a copy: a step may edit its own state, and `states` may be read-only."""
        for group in self._groups:
            for client, at in group.position.items():
                state = tree_map(Tensor.clone, to_device(states[client], group.device))
                group.states.set_one(at, state)

    def states(self) -> dict[int, Tree]:
        """Return the state of each client."""
        return {client: group.states.one(at) for group in self._groups for client, at in group.position.items()}


def load_clients(job: Job, clients: Sequence[int]) -> dict[int, Any]:
    """Read the data of some clients, and no others, from the job's store."""
    return job.open_store().load(clients)


def host_of(
    job: Job,
    place: int,
    *,
    use_cuda: bool,
    load: Callable[[Job, Sequence[int]], dict[int, Any]] = load_clients,
) -> ClientHost:
    """Return a host of the clients of one place of the job."""
    keep_large_blocks()
    torch.set_num_threads(job.num_threads)
    device = device_for(use_cuda=use_cuda)
    parts = load(job, job.placement.actors[place])
    data = {client: client_data(part, device, job.config.link_split) for client, part in parts.items()}
    return ClientHost(job.config.algorithm, data, batched=job.config.engine.batched)
