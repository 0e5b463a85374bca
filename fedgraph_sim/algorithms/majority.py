"""The label that most of a client's own training samples have, without any learning.

Exchange: none.
"""

from typing import ClassVar, Literal

import torch

from fedgraph_sim.algorithms.nn.objectives import NodeClassification
from fedgraph_sim.engine.algorithm import Algorithm, Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree


class Majority(Algorithm):
    """p(c) = (n_c + 1) / (n + C) for every sample of a client with n training samples, n_c of them of class c.

    The largest n_c wins, of equals that with the smaller number (so does class 0 where nothing trains). What a model
    that sees features and neighbours must beat to have learnt anything from either.
    """

    summary: ClassVar[str] = "the most frequent label of a client's own training samples; no model"
    has_global_model: ClassVar[bool] = False

    name: Literal["majority"] = "majority"

    def setup(self, fed: Federation) -> Tree:
        """Tell the clients how many classes there are."""
        fed.publish({"classes": torch.arange(fed.task.num_classes)})
        return {}

    def round(self, fed: Federation, server: Tree) -> Tree:
        """Do nothing."""
        return server

    @client_step(batched=True)
    def evaluate(self, client: Client, message: None) -> Tree:
        """Return loss and accuracy on the own samples."""
        graph = client.graph
        known = graph.y[:, None] == client.public["classes"]
        counts = (known & graph.train_mask[:, None]).sum(dim=0)
        logits = torch.log((counts + 1) / (counts.sum() + len(counts)))
        return NodeClassification().scores(logits.expand(graph.num_nodes, len(counts)), graph)
