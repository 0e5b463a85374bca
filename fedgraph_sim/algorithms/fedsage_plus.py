"""FedSage+ (Zhang et al., Subgraph Federated Learning with Missing Neighbor Generation, NeurIPS 2021, algorithm 1).

Exchange: set-up, as in FedSage. In a generator round, embeddings of a batch and the generator of each participant come
up and go down to all others; their gradients come up, and the sum goes down. In a later round, as in FedSage.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.fedsage import FedSage
from fedgraph_sim.algorithms.neighbor_generation import NeighborGeneration
from fedgraph_sim.algorithms.nn.impairment import Impaired
from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.nn.nearest import nearest, squared_distances
from fedgraph_sim.algorithms.nn.neighgen import GENERATOR, Generated, added_gradients, part
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation, Task
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for


class FedSagePlus(NeighborGeneration, FedSage):
    """FedSage on mended subgraphs; what is generated shall resemble nodes of other clients, too.

    In a generator round client i sends z_v of a batch B_i and its generator H_i^g (never the encoder, nor features of a
    node) through the server to every other participant j. That one computes, for all nodes u of its own,
    L_ij = lambda_f alpha / |B_i| sum_v sum_p min_u ||H_i^g(z_v)^p - x_u||^2 (eq. 6) and returns the gradient with
    respect to the weights of H_i^g. The server adds these up; i takes one step with the sum and its own losses on B_i.

    What the exchange reveals: z_v is a function of v's features and neighbourhood, and is sent as it is; who knows the
    encoder, or enough pairs of z_v and features, may invert it. The generator is trained to make real features, of i's
    hidden nodes and of the others' nodes, and whoever holds it can draw as many as it likes. The gradient shows which
    features are nearest to i's generated ones. None of this is private in any formal sense.
    """

    summary: ClassVar[str] = "FedSage with neighbours by generators that cross clients (Zhang et al., 2021)"

    name: Literal["fedsage_plus"] = "fedsage_plus"  # type: ignore[assignment]
    generator_rounds: int = Field(
        20,
        ge=0,
        le=1_000_000,
        description="rounds, before all others, in which clients judge each other's generators",
        json_schema_extra={"unit": "rounds"},
    )
    alpha: float = Field(1.0, ge=0, description="factor of the distance from the nodes of each other client")
    generator: Literal["own", "shared"] = Field(
        "own",
        description="whether each client has a generator of its own, or all one, encoder included, that the server "
        "averages in each generator round instead of the exchange of gradients",
    )

    @property
    def preparation_rounds(self) -> int:
        """The generator rounds."""
        return 0 if self.mending == "none" else self.generator_rounds

    def notices(self, task: Task, places: Sequence[Sequence[int]]) -> Sequence[str]:
        """Tell what a generator round costs: K^2 (|H^g| + |gradient|) for K clients, beside which z is nothing."""
        if self.preparation_rounds == 0 or self.generator == "shared":
            return ()
        count, features = self.neighgen.generator_sizes(task.num_features)
        num_clients = sum(map(len, places))
        moved = 4 * num_clients**2 * (count + 2 * features)
        # To other actors go the generators, and from there gradients, of the widest layer rows of products.
        stored = 4 * num_clients * (count + features) if len(places) > 1 else 0
        far = sum(len(clients) * (num_clients - len(clients)) for clients in places)
        stored += 4 * far * self.neighgen.gradient_size(task.num_features, self.generator_batch)
        bound = "" if not stored else "at most " if self.generator_batch else "more than "
        return [
            f"each generator round moves {moved / 1e9:.3g} GB in the simulated federation, {bound}"
            f"{stored / 1e9:.3g} GB through the object store; algorithm.widths and num_pred decide it"
        ]

    def setup(self, fed: Federation) -> Tree:
        """Do as FedSage does; let all clients train their generators on their own."""
        server = super().setup(fed)
        if self.mending == "none":
            return server
        if self.generator == "own":
            fed.call(self.pretrain)
            return server
        drawn = torch.Generator().manual_seed(seed_for(fed.seed, "neighgen"))
        weights = self.initial_neighgen(fed.task.num_features, fed.task.num_classes, drawn)
        replies = fed.call(self.pretrain, weights)
        return server | {"neighgen": replies.mean("neighgen", by=torch.ones(len(replies)))}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Improve the generators in the first rounds; then mend all graphs, once, and go on as FedSage."""
        if fed.round <= self.preparation_rounds:
            return self.shared_round(fed, server) if self.generator == "shared" else self.generator_round(fed, server)
        if self.mending != "none" and fed.round == self.preparation_rounds + 1:
            fed.call(self.mend, server.get("neighgen"))
            server = {name: leaf for name, leaf in server.items() if name != "neighgen"}
        return super().round(fed, server)

    def generator_round(self, fed: Federation, server: Tree) -> Tree:
        """Let every participant's generator be judged by all others, and take a step with the sum of the gradients."""
        participants = fed.sample()
        shared = fed.call(self.share, clients=participants).keep()
        if len(shared.clients) == 1:
            fed.call(self.improve, clients=participants)
        else:
            fed.call_each(self.improve, fed.call_others(self.judge, shared, added_gradients), clients=participants)
        return server

    def shared_round(self, fed: Federation, server: Tree) -> Tree:
        """Let the participants train the common generator, each on its own losses, and average it."""
        replies = fed.call(self.train_generator, server["neighgen"], clients=fed.sample())
        return server | {"neighgen": replies.mean("neighgen", by=torch.ones(len(replies)))}

    def ask_for_scores(self, fed: Federation, server: Tree) -> Replies:
        """Ask for the generators' losses in the generator rounds, and for the classifiers' scores after them."""
        preparing = fed.round <= self.preparation_rounds
        return fed.call(self.evaluate_generator, server.get("neighgen")) if preparing else fed.call(self.evaluate)

    @client_step
    def share(self, client: Client, message: None) -> Tree:
        """Draw a batch of visible nodes; return what the encoder makes of them, and the generator."""
        impaired = Impaired.of(client.graph, client.state["hidden"])
        batch = impaired.batch(self.generator_batch, client.random)
        client.state = client.state | {"batch": batch}
        weights = client.state["neighgen"]
        z = self.neighgen.encode(weights, impaired.graph)[batch]
        return {"z": z, "generator": part(weights, GENERATOR)}

    @client_step
    def judge(self, client: Client, message: Tree) -> Tree:
        """Return the gradient of L_ij for another client's generator, without what its number of neighbours needs."""
        z, generator = message["z"], message["generator"]
        judged = {name: leaf.detach().requires_grad_() for name, leaf in generator.items() if name.startswith("hidden")}
        drawn = self.neighgen.draw(generator | judged, z, client.random.fold(0))
        target, is_there = self.targets_among(client.graph, drawn, len(z), client.random.fold(1))
        distances = squared_distances(drawn.features, client.graph.x, target)
        loss = self.lambda_f * self.alpha * torch.where(is_there, distances, 0.0).sum() / len(z)
        wanted = [drawn.linear, *judged.values()]
        errors, *found = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        return dict(zip(judged, found, strict=True)) | self.neighgen.head_gradient(drawn, errors)

    def targets_among(
        self, graph: GraphTensors, drawn: Generated, num_nodes: int, random: RandomStream
    ) -> tuple[Tensor, Tensor]:
        """Return the own node with which each generated one is compared, and whether it is, both [r].

        The nearest one, or, as the released code has it, for each of the `num_nodes` of the batch some neighbour of
        some node.
        """
        if self.targets == "true-min":
            target = nearest(drawn.features, graph.x)
            return target, torch.ones_like(target, dtype=torch.bool)
        assert graph.adjacency is not None
        ends = torch.from_numpy(graph.adjacency.indices).long().to(drawn.owner.device)
        degree = torch.from_numpy(np.diff(graph.adjacency.indptr)).long().to(ends)
        linked = degree.nonzero().flatten()
        if not len(linked):
            return torch.zeros_like(drawn.owner), torch.zeros_like(drawn.owner, dtype=torch.bool)
        node = linked[random.fold(0).integers(num_nodes, torch.tensor(len(linked)).to(ends))]
        start = degree.cumsum(0) - degree
        neighbor = ends[start[node] + random.fold(1).integers(num_nodes, degree[node])]
        return neighbor[drawn.owner], torch.ones_like(drawn.owner, dtype=torch.bool)

    @client_step
    def improve(self, client: Client, gradient: Tree) -> Tree:
        """Take one step on the latest batch with the own losses and the sum of the others' gradients."""
        impaired = Impaired.of(client.graph, client.state["hidden"])
        self.step(client, impaired, client.state["batch"], client.random, gradient)
        return None

    @client_step
    def train_generator(self, client: Client, weights: Weights) -> Tree:
        """Take one step with the common generator on the own losses."""
        client.state = client.state | {"neighgen": weights}
        impaired = Impaired.of(client.graph, client.state["hidden"])
        self.step(client, impaired, impaired.batch(self.generator_batch, client.random.fold(0)), client.random.fold(1))
        return {"neighgen": client.state["neighgen"]}
