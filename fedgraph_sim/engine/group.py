"""A group: clients of like size in one process, run one after another or all in one computation."""

import traceback

import torch
from torch import Tensor

from fedgraph_sim.engine.algorithm import Client, ClientStep
from fedgraph_sim.engine.call import Call, StepFailure
from fedgraph_sim.engine.client_axis import one, stack
from fedgraph_sim.engine.client_data import Batch, ClientData
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.states import States
from fedgraph_sim.engine.tree import Tree, leaves, tree_map


class Group:
    """The data and states of some clients; `position` says where each client is among them."""

    def __init__(self, data: dict[int, ClientData]) -> None:
        self.position = {client: position for position, client in enumerate(data)}
        self.states = States(len(data))
        self.public: Tree = None
        self._data = list(data.values())
        self._batches: dict[tuple[int, ...], Batch] = {}

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all clients."""
        return sum(each.num_nodes for each in self._data)

    @property
    def num_padded_nodes(self) -> int:
        """The same with the padding of a batch of all clients."""
        return len(self._data) * max(each.num_nodes for each in self._data)

    @property
    def device(self) -> torch.device:
        """Where the data are."""
        return self._data[0].device

    def run_in_turn(self, step: ClientStep, call: Call, keys: Tensor) -> Tree | StepFailure:
        """Run `step` for one client of `call` after another, with the random streams of `keys` [num_clients]."""
        replies = []
        for place, number in enumerate(call.clients):
            position = self.position[number]
            message = call.shared if call.each is None else tree_map(Tensor.clone, one(call.each, place))
            client = Client(
                data=self._data[position],
                random=RandomStream(keys[place]),
                state=self.states.one(position),
                public=self.public,
            )
            versions = _versions(message)
            try:
                reply = step(client, message)
            except Exception as error:
                return _raised(error, call, f"client {number}")
            if versions != _versions(message):
                return _edited(call, f"client {number}")
            self.states.set_one(position, client.state)
            replies.append(tree_map(lambda leaf: leaf.detach(), reply))
        return stack(replies)

    def run_together(self, step: ClientStep, call: Call, keys: Tensor) -> Tree | StepFailure:
        """Run `step` for all clients of `call` in one computation."""
        positions = tuple(self.position[number] for number in call.clients)
        states = self.states.some(positions)
        # What all clients share is not mapped over; a tree without tensors cannot be.
        shared = call.each is None
        message = call.shared if shared else call.each
        batch = self._batch(positions)

        def run_one(own: Tree, key: Tensor, state: Tree, message: Tree, public: Tree) -> Tree:
            before = dict(leaves(state))
            client = Client(data=batch.one(own), random=RandomStream(key), state=state, public=public)
            reply = step(client, message)
            changed = {} if _same(before, dict(leaves(client.state))) else {"state": client.state}
            return changed | ({} if reply is None else {"reply": reply})

        def run_all(inputs: Tree) -> Tree:
            mapped = torch.vmap(run_one, in_dims=(0, 0, 0 if states else None, None if shared else 0, None))
            results: Tree = mapped(batch.tensors(), *inputs.values())
            return results

        names = f"clients {', '.join(map(str, call.clients))}"
        versions = _versions(message)
        try:
            inputs = {"keys": keys, "states": states, "message": message, "public": self.public}
            results = batch.programs.run(run_all, inputs, name=(step.__name__, shared))
        except Exception as error:
            return _raised(error, call, names)
        if versions != _versions(message):
            return _edited(call, names)
        if "state" in results:
            self.states.set_some(positions, results["state"])
        reply: Tree = results.get("reply")
        return reply

    def _batch(self, positions: tuple[int, ...]) -> Batch:
        """Return the data at `positions`, stacked. The batch of all clients is kept, and the latest other one."""
        if positions not in self._batches:
            everyone = tuple(range(len(self._data)))
            self._batches = {key: batch for key, batch in self._batches.items() if key == everyone}
            self._batches[positions] = type(self._data[0]).stack([self._data[position] for position in positions])
        return self._batches[positions]


def _same(before: dict[str, Tensor], after: dict[str, Tensor]) -> bool:
    """Tell whether the leaves of a state are what they were. What a step leaves alone costs nothing."""
    return before.keys() == after.keys() and all(after[path] is leaf for path, leaf in before.items())


def _versions(message: Tree) -> list[int]:
    """Return how often each tensor was edited in place."""
    parts = [leaf if isinstance(leaf, list) else [leaf] for _, leaf in leaves(message)]
    return [tensor._version for part in parts for tensor in part]


def _raised(error: Exception, call: Call, who: str) -> StepFailure:
    return call.failure(who, f"{type(error).__name__}: {error}", traceback.format_exc())


def _edited(call: Call, who: str) -> StepFailure:
    return call.failure(
        who, "the step edited a tensor of its message in place, which other clients read too; clone it first"
    )
