"""Plain split learning of CNFGNN's model: both halves trained together, minibatch by minibatch (Singh et al., 2019).

"Split learning" of Meng et al., KDD 2021, section 3.3. Exchange: set-up and evaluation as in `cnfgnn`; in a round, for
each minibatch of windows, encodings go up, embeddings down, their gradients up and those of the encodings down.
"""

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.seq2seq import Sequences, Weights, drawn_truth, sequences
from fedgraph_sim.algorithms.relayed_forecaster import RelayedForecaster, server_half
from fedgraph_sim.algorithms.split_forecaster import detached
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.arrays import to_device
from fedgraph_sim.engine.federation import CPU, Federation
from fedgraph_sim.engine.tree import Tree


class GruGnSplit(RelayedForecaster):
    """The model of `cnfgnn`; every client keeps weights of its own, and one step trains them and the graph network.

    It is end-to-end training, as of one party, at the cost of four messages per client and minibatch.
    """

    summary: ClassVar[str] = "time series: the model of cnfgnn by plain split learning, nothing averaged"

    name: Literal["gru_gn_split"] = "gru_gn_split"

    def first_state(self, client: Client, weights: Weights) -> Tree:
        """Begin without gradients, and with an optimiser that lasts."""
        nothing = {name: torch.zeros_like(leaf) for name, leaf in weights.items()}
        own = {"gradients": nothing, "windows": torch.zeros(1, dtype=torch.int32)}
        return super().first_state(client, weights) | own | {"optimizer": self.optimizer.init(weights)}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Train both halves together for one pass over the windows."""
        phase = self.server_phase(fed, server)
        network, moments = server_half(server, fed.device)
        for windows in phase.minibatches(int(server["num_windows"]), self.batch_size, self.local_epochs):
            message = {"windows": windows.int()}
            encoded = fed.call(self.encode_batch, message, clients=phase.clients)
            if encoded.clients != phase.clients:
                phase = self.server_phase(fed, server, encoded.clients)
            leaves = detached(network)
            received = encoded.stack("encodings").detach().to(fed.device).requires_grad_()
            embeddings = self.graph_network(leaves, received, phase.links)
            replies = fed.call_each(self.decode_batch, {"embeddings": embeddings.detach()}, clients=phase.clients)
            own = [phase.clients.index(client) for client in replies.clients]
            *gradients, back = torch.autograd.grad(
                embeddings[own],
                [*leaves.values(), received],
                replies.stack("gradient").to(fed.device),
                allow_unused=True,
            )
            mean = [part if part is None else part / len(replies) for part in gradients]
            network, moments = self.stepped(network, moments, leaves, mean)
            fed.call_each(self.learn_batch, {"gradient": back[own]}, clients=replies.clients)
        return server | to_device({"network": network, "moments": moments}, CPU)

    @client_step(batched=True)
    def encode_batch(self, client: Client, message: Tree) -> Tree:
        """Return the encodings of a minibatch, and keep in mind which it is."""
        client.state = client.state | {"windows": message["windows"]}
        rows = self._batch_rows(client)
        return {"encodings": self.network.encode(client.state["weights"], rows.inputs)[0]}

    @client_step(batched=True)
    def decode_batch(self, client: Client, message: Tree) -> Tree:
        """Return the gradient of the embeddings, and keep that of the own weights for fixed ones."""
        state, rows = client.state, self._batch_rows(client)
        is_given = drawn_truth(client.random, len(rows.steps), state["batches"], self.sampling_decay)

        def loss(weights: Weights, embedding: Tensor) -> Tensor:
            return self.loss(self.forecast_with(weights, rows, embedding, is_given), rows)

        gradients, gradient = torch.func.grad(loss, argnums=(0, 1))(state["weights"], message["embeddings"])
        client.state = state | {"gradients": gradients, "batches": state["batches"] + 1}
        return {"gradient": gradient}

    @client_step(batched=True)
    def learn_batch(self, client: Client, message: Tree) -> Tree:
        """Add what comes back through the graph network to the own encodings, and do one step."""
        state, rows = client.state, self._batch_rows(client)
        pull: Callable[[Tensor], tuple[Weights]]
        _, pull = torch.func.vjp(lambda own: self.network.encode(own, rows.inputs)[0], state["weights"])  # type: ignore[misc]
        gradients = {name: leaf + pull(message["gradient"])[0][name] for name, leaf in state["gradients"].items()}
        where = client.series.is_seen.any()
        weights, moments = self.optimizer.update(state["weights"], gradients, state["optimizer"], where=where)
        client.state = state | {"weights": weights, "optimizer": moments}
        return None

    def _batch_rows(self, client: Client) -> Sequences:
        return sequences(client.series, client.series.train[client.state["windows"].long()], client.public)
