"""GFL-APPNP (Wu et al., Graph Federated Learning with Hidden Representation Sharing, 2022).

Exchange: set-up, numbers of samples come up and each client's weight of its own representation goes down; in a round,
the server's weights go down, representations h_k and their Jacobians come up, the sums C_k of the others' and their
Jacobians go down to whoever trains, and its weights come up. To evaluate: weights down, h_k up, C_k down.
"""

from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from scipy import sparse
from torch import Tensor

from fedgraph_sim.algorithms.nn.jacobians import FORMS, JacobianForm, jacobian_bytes
from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.nn.privacy import clipped, epsilon, noisy
from fedgraph_sim.algorithms.nn.propagation import diagonal, personalized_propagation, propagate, rows
from fedgraph_sim.algorithms.sample_classifier import SampleClassifier, Samples
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.client_axis import put
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree

LARGE = 2**14
"""Bytes of a client's Jacobian from which ``exchange = "auto"`` computes with its factors."""


class GflAppnp(SampleClassifier):
    """Clients are the nodes of a graph that the server knows; a client's prediction needs its neighbours' h.

    h_k = mean of h(x; W) over the client's samples, C_k = sum_{i != k} A~_ki h_i, and a sample x of client k is
    classified by softmax(A~_kk h(x; W_k) + C_k), A~ being M steps of personalized propagation as one matrix (section
    5). A local step on samples with labels y goes along

    ``sum_c (y^ - y)_c [A~_kk dh_c(x)/dW + dC_kc/dW]``

    (mean over the step's samples), where C_k and its Jacobian are those of the server's weights all through a round:
    the paper's gradient compensation. Without it the second term is missing. Then W <- mean of W_k over those who
    train. With one pass per round, and one sample per client, this is gradient descent on centralised APPNP.

    All participants share, those that train or not. Of who does not take part the server keeps the h that it shared
    last, 0 before it did, as a constant: its Jacobian is that at other weights.
    """

    summary: ClassVar[str] = (
        "hidden representations, and their Jacobians, relayed between node clients (Wu et al., 2022)"
    )
    has_global_model: ClassVar[bool] = False

    name: Literal["gfl_appnp"] = "gfl_appnp"
    propagation_steps: int = Field(10, ge=0, le=100_000, description="steps of personalized propagation (M)")
    teleport: float = Field(0.1, gt=0, le=1, description="teleport probability alpha; a step keeps 1 - alpha")
    compensation: Literal["gradient", "none"] = Field(
        "gradient", description="whether Jacobians are relayed, or representations alone"
    )
    exchange: Literal["auto", "explicit", "implicit"] = Field(
        "auto",
        description="compute with Jacobians, or with factors of them (two layers without bias); the results and the "
        f"bytes in the ledger are those of Jacobians; auto: factors where a Jacobian takes over {LARGE >> 10} KiB",
    )
    inductive: bool = Field(
        False, description="whether clients that only test are unknown until evaluation, with all their links"
    )
    noise_hidden: float = Field(0.0, ge=0, description="standard deviation of the noise on each entry of a shared h")
    noise_jacobian: float = Field(0.0, ge=0, description="standard deviation of the noise on each entry of a Jacobian")
    clip_hidden: float = Field(0.0, ge=0, description="length to which a shared h is cut; 0: as it is")
    clip_jacobian: float = Field(0.0, ge=0, description="length to which a Jacobian is cut, as one vector; 0: as it is")
    delta: float = Field(1e-5, gt=0, lt=1, description="delta of the (epsilon, delta) that the summary reports")

    @model_validator(mode="after")
    def _factors_are_possible(self) -> Self:
        if self.exchange == "implicit" and not self._may_be_implicit:
            raise ValueError(
                "exchange=implicit needs num_layers=2, bias=false and Jacobians without noise_jacobian and"
                " clip_jacobian; use exchange=auto"
            )
        return self

    @property
    def _may_be_implicit(self) -> bool:
        return self.encoder.has_factors and not self.noise_jacobian and not self.clip_jacobian

    def setup(self, fed: Federation) -> Tree:
        """Build the propagation matrix, and tell each client its own entry of it."""
        server = super().setup(fed)
        graph, counts = fed.task.client_graph, server["counts"]
        assert graph is not None, "a federation's server knows the links between clients"
        whole = rounds = self.propagation(graph)
        known = torch.ones(len(fed.clients), dtype=torch.bool)
        if self.inductive:
            known = (counts["num_test"] == 0) | (counts["num_train"] + counts["num_val"] > 0)
            only = sparse.diags_array(known.double().numpy())
            rounds = self.propagation((only @ graph @ only).tocsr())
        fed.call_each(self.place, {"self_weight": torch.stack([diagonal(rounds), diagonal(whole)], dim=1)})
        clients = {"known": known, "trains": known & (counts["num_train"] > 0)}
        hidden = torch.zeros(len(fed.clients), fed.task.num_classes)
        return {"weights": server["weights"], "hidden": hidden, "rounds": rounds, "whole": whole} | clients

    def propagation(self, graph: sparse.csr_array) -> Tree:
        """Return A~ of the links between clients."""
        return personalized_propagation(graph, teleport=self.teleport, steps=self.propagation_steps)

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Share, relay, train, average."""
        weights, known, trains = server["weights"], server["known"].tolist(), server["trains"].tolist()
        clients = [client for client in fed.sample() if known[client]]
        training = [client for client in clients if trains[client]]
        fed.publish(weights, clients=clients)
        replies = fed.call(self.share if self.compensation == "none" else self.share_jacobian, clients=clients)
        hidden = put(server["hidden"], replies.clients, replies.stack("hidden"))
        messages: Tree = {"context": contexts(server["rounds"], hidden)[training]}
        if self.compensation == "gradient":
            coefficients = rows(server["rounds"], training)[:, list(replies.clients)]
            messages["jacobian"] = self.form(weights).relayed(replies.stack("jacobian"), coefficients, weights)
        trained = fed.call_each(self.train, messages, clients=training)
        return server | {"weights": trained.mean("weights", by=torch.ones(len(trained))), "hidden": hidden}

    def form(self, weights: Weights) -> JacobianForm:
        """Return the form in which Jacobians are told, a function of their size, so that all parties agree."""
        large = self._may_be_implicit and jacobian_bytes(weights) > LARGE
        return FORMS[("implicit" if large else "explicit") if self.exchange == "auto" else self.exchange]

    @client_step
    def place(self, client: Client, message: Tree) -> None:
        """Keep the own entries A~_kk, in the rounds and in evaluation."""
        client.state = client.state | message

    @client_step(batched=True)
    def share(self, client: Client, message: None) -> Tree:
        """Return h_k."""
        own = self.samples(client)
        hidden = clipped({"hidden": own.share @ self.encoder(client.public, own.x)}, self.clip_hidden)
        return noisy(hidden, self.noise_hidden, client.random.fold(0))

    @client_step(batched=True)
    def share_jacobian(self, client: Client, message: None) -> Tree:
        """Return h_k and its Jacobian."""
        own = self.samples(client)
        jacobian = self.form(client.public).of(self.encoder, client.public, own.x, own.share)
        jacobian = noisy(clipped(jacobian, self.clip_jacobian), self.noise_jacobian, client.random.fold(1))
        return {**self.share(client, None), "jacobian": jacobian}

    @client_step(batched=True)
    def train(self, client: Client, message: Tree) -> Tree:
        """Descend from the server's weights, with the others' sums frozen and the own representation fresh."""
        received, own_weight, relayed = client.public, client.state["self_weight"][0], message.get("jacobian")

        def gradient(weights: Weights, samples: Samples) -> Weights:
            own, pull = torch.func.vjp(lambda weights: own_weight * self.encoder(weights, samples.x), weights)[:2]
            target = samples.y[:, None] == torch.arange(own.shape[-1], device=own.device)
            error = samples.share[:, None] * (torch.softmax(own + message["context"], dim=-1) - target.to(own.dtype))
            (step,) = pull(error)
            if relayed is None:
                return dict(step)
            others = self.form(received).pull(relayed, received, error.sum(dim=0))
            return {name: leaf + others[name] for name, leaf in step.items()}

        return {"weights": self.descend(client, received, gradient)}

    def ask_for_scores(self, fed: Federation, server: Tree) -> Replies:
        """Let everybody share h_k of the averaged weights, and relay the sums."""
        fed.publish(server["weights"])
        hidden = fed.call(self.share).stack("hidden")
        return fed.call_each(self.evaluate, {"context": contexts(server["whole"], hidden)})

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Tree) -> Tree:
        """Return loss and accuracy of the averaged weights on the own samples."""
        own = client.state["self_weight"][1] * self.encoder(client.public, client.graph.x)
        return self.scores(own + message["context"], client.graph)

    def remarks(self, *, rounds: int, evaluations: int) -> dict[str, float | None]:
        """Return the (epsilon, delta) of the h and Jacobians that one client shares; its trained weights are not in it.

        Every participant shares h and Jacobian in a round, and everybody h in an evaluation.
        """
        if not self.noise_hidden and not self.noise_jacobian:
            return {}
        releases = [(self.noise_hidden, self.clip_hidden, rounds + evaluations)]
        if self.compensation == "gradient":
            releases.append((self.noise_jacobian, self.clip_jacobian, rounds))
        return {"epsilon of shared representations": epsilon(releases, delta=self.delta), "delta": self.delta}


def contexts(matrix: Tree, hidden: Tensor) -> Tensor:
    """Return C [num_clients, num_classes], C_k = sum_{i != k} A~_ki h_i."""
    return propagate(matrix, hidden) - diagonal(matrix)[:, None] * hidden
