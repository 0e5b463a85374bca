"""What LocSage+ and FedSage+ share: a generator of missing neighbours, and subgraphs that are mended with them."""

from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from fedgraph_sim.algorithms.graphsage import GraphSage
from fedgraph_sim.algorithms.nn.impairment import Impaired, hidden_nodes
from fedgraph_sim.algorithms.nn.losses import cross_entropy
from fedgraph_sim.algorithms.nn.mending import attached, layered
from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.algorithms.nn.nearest import features_of
from fedgraph_sim.algorithms.nn.neighbors import neighbor_lists
from fedgraph_sim.algorithms.nn.neighgen import (
    CLASSIFIER,
    GENERATOR,
    Generated,
    NeighGen,
    count_loss,
    part,
    with_gradient,
    with_prefix,
)
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.tree import Tree


class NeighborGeneration(GraphSage):
    """Each client hides some of its nodes, learns to predict them as missing neighbours, and mends its subgraph.

    Of a batch B of visible nodes, of which v has n_v hidden neighbours, is predicted to have n'_v, and gets generated
    ones with features x'_v^p (see `NeighGen`), the loss is lambda_d L^d + lambda_f L^f + lambda_c L^c (section 4.1):

    - L^d = 1/|B| sum_v smooth L1 (n'_v - n_v),
    - L^f = 1/|B| sum_v sum_p min_u ||x'_v^p - x_u||^2 over the hidden neighbours u of v, if it has any,
    - L^c = cross-entropy, on B's training nodes, of a classifier on the visible graph with the generated ones attached.

    That classifier is thrown away. Then the encoder sees the whole subgraph, and for each node round(n'_v) generated
    ones are attached, in both directions, for good. With ``targets = "last"`` L^f takes for every p the last of v's
    first `num_pred` hidden neighbours instead of the nearest, which is what the released code computes.
    """

    hide: float = Field(0.1, ge=0, lt=1, description="share of a client's nodes that are hidden to train the generator")
    num_pred: int = Field(
        5,
        ge=1,
        le=1_000,
        description="largest number of neighbours generated for a node",
        json_schema_extra={"unit": "nodes"},
    )
    latent: int = Field(
        128, ge=1, le=65_536, description="width of the encoder's layers, and of what it makes of a node"
    )
    widths: tuple[int, ...] = Field(
        (256, 2048),
        min_length=1,
        max_length=64,
        description="widths of the feature generator's hidden layers; the last decides its size",
    )
    noise: float = Field(1.0, ge=0, description="standard deviation of the noise on a node's embedding")
    targets: Literal["true-min", "last"] = Field(
        "true-min", description="which real node a generated one is compared with: the nearest, or as the released code"
    )
    lambda_d: float = Field(1.0, ge=0, description="factor of the loss of the numbers of missing neighbours")
    lambda_f: float = Field(1.0, ge=0, description="factor of the loss of their features")
    lambda_c: float = Field(1.0, ge=0, description="factor of the loss of a classifier on the mended graph")
    generator_lr: float = Field(0.001, gt=0, description="learning rate of Adam for the generator")
    generator_weight_decay: float = Field(1e-4, ge=0, description="factor of the generator's L2 penalty")
    generator_batch: int = Field(
        64, ge=0, description="nodes of a step of the generator; 0: all", json_schema_extra={"unit": "nodes"}
    )
    pretrain_steps: int = Field(
        20,
        ge=0,
        le=100_000,
        description="steps in which each client trains its own generator first",
        json_schema_extra={"unit": "steps"},
    )
    mending: Literal["generated", "random", "none"] = Field(
        "generated",
        description="what is attached: generated neighbours; as controls as many random nodes of the client's own, or "
        "nothing, and then no generator is trained",
    )

    @field_validator("widths")
    @classmethod
    def _at_least_one(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not 1 <= min(value) <= max(value) <= 65_536:
            raise ValueError("must be numbers from 1 to 65536")
        return value

    @property
    def neighgen(self) -> NeighGen:
        """Encoder and generator as functions of weights."""
        return NeighGen(latent=self.latent, widths=self.widths, num_pred=self.num_pred, noise=self.noise)

    @property
    def generator_optimizer(self) -> Adam:
        """The generator's optimiser."""
        return Adam(lr=self.generator_lr, weight_decay=self.generator_weight_decay)

    @client_step
    def pretrain(self, client: Client, weights: Weights | None) -> Tree:
        """Hide nodes and train the generator on them, from own weights, or from common ones, which are returned."""
        is_common = weights is not None
        if weights is None:
            sizes = client.state["weights"]["conv1.self.weight"].shape[0], len(client.state["weights"]["head.bias"])
            weights = self.initial_neighgen(*sizes, client.random.fold(-1).generator())
        client.state = client.state | {
            "neighgen": weights,
            "neighgen_optimizer": self.generator_optimizer.init(weights),
            "hidden": hidden_nodes(client.graph.num_nodes, self.hide, client.random.fold(0)),
        }
        impaired = Impaired.of(client.graph, client.state["hidden"])
        for number in range(1, self.pretrain_steps + 1):
            random = client.random.fold(number)
            self.step(client, impaired, impaired.batch(self.generator_batch, random.fold(0)), random.fold(1))
        return {"neighgen": client.state["neighgen"]} if is_common else None

    @client_step
    def mend(self, client: Client, weights: Weights | None) -> Tree:
        """Attach nodes of the own generator, or of `weights`, to the own graph; the own has done its work then."""
        graph, state, random = client.graph, client.state, client.random
        if weights is None:
            weights = state["neighgen"]
        z = self.neighgen.encode(weights, graph)
        drawn = self.neighgen.draw(part(weights, GENERATOR), z, random.fold(0))
        features = drawn.features
        if self.mending == "random":
            many = torch.tensor(graph.num_nodes, device=z.device)
            features = features_of(graph.x, random.fold(1).integers(len(drawn.owner), many))
        own = {name: leaf for name, leaf in state.items() if not name.startswith(("neighgen", "hidden", "batch"))}
        client.state = own | {"generated": attached(drawn.owner, features, graph.num_nodes)}
        return None

    @client_step
    def evaluate_generator(self, client: Client, weights: Weights | None) -> Tree:
        """Return the losses of the own generator, or of `weights`, on all visible nodes.

        Also, how many neighbours it predicts for one of them.
        """
        impaired = Impaired.of(client.graph, client.state["hidden"])
        if weights is None:
            weights = client.state["neighgen"]
        node, missing = impaired.batch(0, client.random), impaired.num_missing()
        z = self.neighgen.encode(weights, impaired.graph)[node]
        counts = self.neighgen.counts(part(weights, GENERATOR), z)
        lacking = node[missing[node] > 0]
        drawn = self.neighgen.draw(part(weights, GENERATOR), z[missing[node] > 0], client.random.fold(0))
        distances = impaired.distances(lacking[drawn.owner], drawn.features)
        num_nodes = counts.new_tensor(len(node))
        return {
            "generator_count_loss": torch.stack([count_loss(counts, missing[node]) * num_nodes, num_nodes]),
            "generator_feature_loss": torch.stack([distances.sum(), counts.new_tensor(len(distances))]),
            "generator_neighbors": torch.stack([counts.round().clamp(max=self.num_pred).sum(), num_nodes]),
        }

    def step(
        self,
        client: Client,
        impaired: Impaired,
        batch: Tensor,
        random: RandomStream,
        from_others: Tree = None,
    ) -> None:
        """Take one step with the generator on `batch`, on the own losses and the gradient that others computed."""
        weights = {name: leaf.detach().requires_grad_() for name, leaf in client.state["neighgen"].items()}
        loss = self.generator_loss(weights, impaired, batch, random)
        found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        gradients = dict(zip(weights, found, strict=True))
        if from_others is not None:
            gradients |= with_prefix(with_gradient(part(gradients, GENERATOR), from_others), GENERATOR)
        old = {name: leaf.detach() for name, leaf in weights.items()}
        everywhere = torch.ones((), dtype=torch.bool, device=batch.device)
        new, moments = self.generator_optimizer.update(
            old, gradients, client.state["neighgen_optimizer"], where=everywhere
        )
        client.state = client.state | {"neighgen": new, "neighgen_optimizer": moments}

    def generator_loss(self, weights: Weights, impaired: Impaired, batch: Tensor, random: RandomStream) -> Tensor:
        """Return lambda_d L^d + lambda_f L^f + lambda_c L^c of a batch of visible nodes."""
        own = part(weights, GENERATOR)
        z = self.neighgen.encode(weights, impaired.graph)[batch]
        drawn = self.neighgen.draw(own, z, random)
        last = self.num_pred if self.targets == "last" else 0
        distances = impaired.distances(batch[drawn.owner], drawn.features, last=last)
        loss = self.lambda_d * count_loss(self.neighgen.counts(own, z), impaired.num_missing()[batch])
        loss = loss + self.lambda_f * distances.sum() / len(batch)
        if self.lambda_c:
            loss = loss + self.lambda_c * self.classifier_loss(weights, impaired.graph, batch, drawn)
        return loss

    def classifier_loss(self, weights: Weights, graph: GraphTensors, batch: Tensor, drawn: Generated) -> Tensor:
        """Return L^c: the cross-entropy on the batch's training nodes when the generated ones are attached."""
        assert graph.adjacency is not None
        generated = attached(batch[drawn.owner], drawn.features, graph.num_nodes)
        lists = neighbor_lists(graph.adjacency, batch.device)
        mended = layered(graph, lists, (0,) * len(self.sizes), None, generated)
        in_batch = torch.zeros_like(graph.train_mask).index_fill(0, batch, True)
        logits = self.logits(part(weights, CLASSIFIER), mended)
        return cross_entropy(logits, graph.y, graph.train_mask & in_batch)

    def initial_neighgen(self, num_features: int, num_classes: int, generator: torch.Generator) -> Weights:
        """Draw weights of encoder, generator and classifier."""
        classifier = self.network.init(num_features, num_classes, generator)
        return self.neighgen.init(num_features, generator) | with_prefix(classifier, CLASSIFIER)

    def seen(self, client: Client, sizes: tuple[int, ...], random: RandomStream | None) -> GraphTensors:
        """Return the graph that the layers see: the mended one, with neighbours drawn by `random`."""
        return layered(client.graph, client.state["neighbors"], sizes, random, client.state.get("generated"))

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return loss and accuracy of the own model on the mended graph, or of `message` on the graph as it is."""
        if message is None:
            client.graph = self.seen(client, (0,) * len(self.sizes), None)
        return super().evaluate(client, message)
