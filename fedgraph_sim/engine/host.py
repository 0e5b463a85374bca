"""A host: some clients in one process. Under Ray it is an actor; inline it is a plain object."""

import resource
import traceback
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedgraph_sim.datasets.store import PartitionStore
from fedgraph_sim.engine.algorithm import Algorithm, Client, ClientStep
from fedgraph_sim.engine.federation import Call, StepFailure
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream, client_keys
from fedgraph_sim.engine.tree import Tree, leaves, tree_map


class ClientHost:
    """Holds the graphs and states of its clients and runs client steps for them, one client after another."""

    def __init__(self, algorithm: Algorithm, graphs: dict[int, GraphTensors]) -> None:
        self._algorithm = algorithm
        self._clients = {
            number: Client(graph=graph, random=RandomStream(torch.tensor(number))) for number, graph in graphs.items()
        }

    @classmethod
    def from_store(cls, algorithm: Algorithm, folder: Path, clients: tuple[int, ...], *, device: str) -> "ClientHost":
        """Load the parts of `clients`, and of no others, from the partition store in `folder`."""
        parts = PartitionStore(folder).load(clients)
        return cls(algorithm, {number: GraphTensors.of(parts[number], torch.device(device)) for number in clients})

    @property
    def device(self) -> str:
        """Where the clients' graphs are, "cpu" or "cuda"."""
        return next(iter(self._clients.values())).graph.y.device.type

    def run(self, call: Call) -> Tree | StepFailure:
        """Run the call's step for its clients; return their replies, each leaf with a leading client axis."""
        step: ClientStep = getattr(self._algorithm, call.step)
        keys = torch.from_numpy(client_keys(call.seed, np.array(call.clients, np.int64)))
        replies = []
        for position, number in enumerate(call.clients):
            message = call.shared if call.each is None else tree_map(lambda leaf, at=position: leaf[at], call.each)
            reply = self._run_one(step, number, message, RandomStream(keys[position]))
            if isinstance(reply, StepFailure):
                return reply
            replies.append(reply)
        return stack(replies)

    def _run_one(self, step: ClientStep, number: int, message: Tree, random: RandomStream) -> Tree | StepFailure:
        client = self._clients[number]
        device = client.graph.y.device
        client.random = RandomStream(random.key.to(device))
        message = tree_map(lambda leaf: leaf.to(device), message)
        versions = [leaf._version for _, leaf in leaves(message)]
        try:
            reply = step(client, message)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return StepFailure(client=number, step=step.__name__, reason=reason, traceback=traceback.format_exc())
        if versions != [leaf._version for _, leaf in leaves(message)]:
            reason = "the step edited a tensor of its message in place, which other clients read too; clone it first"
            return StepFailure(client=number, step=step.__name__, reason=reason)
        for path, leaf in leaves(reply):
            if leaf.is_floating_point() and not torch.isfinite(leaf).all():
                reason = f"training diverged: {path} of the reply holds NaN or Inf; lower the learning rate"
                return StepFailure(client=number, step=step.__name__, reason=reason)
        return tree_map(lambda leaf: leaf.detach().cpu(), reply)

    def states(self) -> dict[int, Tree]:
        """Return the state of each client."""
        return {number: client.state for number, client in self._clients.items()}

    @staticmethod
    def peak_memory() -> int:
        """Return the largest resident size of this process so far, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def stack(replies: list[Tree]) -> Tree:
    """Put the replies of several clients on a leading axis, leaf by leaf; leaves of unequal shape become lists."""

    def together(*parts: Tensor) -> Tensor | list[Tensor]:
        return torch.stack(parts) if len({part.shape for part in parts}) == 1 else list(parts)

    return tree_map(together, *replies)
