"""FedPer (Arivazhagan et al., Federated Learning with Personalization Layers, 2019).

Exchange: set-up, the initial base layers, the width of the head and a seed go down, and each client's number of
training nodes comes up; in a round, the base layers go down to the participants, and their trained base layers come up.
The personal layers, the last ones, never travel: each client draws them itself.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field

from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.nn.models import Weights
from fedgraph_sim.engine.algorithm import Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for

LAYERS = ("conv1", "conv2", "head")


class FedPer(FedAvg):
    """W_B <- sum_k n_k W_B,k / sum_k n_k over the participants; W_P,k stays with client k (algorithms 1 and 2).

    W_B are the base layers and W_P,k the last `personal_layers` ones; a client trains both together. With one personal
    layer, the classifier, this is the form in which FED-PUB (Baek et al., 2023) compares itself with it.
    """

    summary: ClassVar[str] = "FedAvg of the base layers; the last layers stay personal (Arivazhagan et al., 2019)"
    has_global_model: ClassVar[bool] = False

    name: Literal["fedper"] = "fedper"  # type: ignore[assignment]
    task: Literal["node"] = Field("node", description="what is predicted: a node's class")
    personal_layers: int = Field(
        1,
        ge=1,
        le=len(LAYERS) - 1,
        description="layers, counted from the last, that stay with the client (K_P); 1: the linear head",
        json_schema_extra={"unit": "layers"},
    )
    personal_start: Literal["same", "own"] = Field(
        "same",
        description='initial personal layers: "same": all clients draw them with the seed that the server sends; '
        '"own": each draws others',
    )

    def setup(self, fed: Federation) -> Tree:
        """Draw the initial base layers and learn the clients' numbers of training nodes."""
        weights = self.initial_weights(fed)
        base = self.base(weights)
        public = {
            "num_outputs": torch.tensor(len(weights["head.bias"])),
            "seed": torch.tensor(seed_for(fed.seed, "personal")),
        }
        sizes = fed.call(self.start, {"weights": base} | public)
        return {"weights": base, "client_weights": self._client_weights(sizes.stack("num_train"))}

    @client_step
    def start(self, client: Client, message: Tree) -> Tree:
        """Draw personal layers to the base layers received, and tell how many training nodes there are."""
        seeded = torch.Generator().manual_seed(int(message["seed"]))
        generator = seeded if self.personal_start == "same" else client.random.generator()
        # The number of features decides about the first layer alone, which is never personal.
        drawn = self.network.init(1, int(message["num_outputs"]), generator)
        return super().start(client, message["weights"] | self.personal(drawn))

    @client_step(batched=True)
    def train(self, client: Client, base: Weights) -> Tree:
        """Train the received base layers together with the own personal ones; return the base layers."""
        weights = self.fit(client, base | self.personal(client.state["weights"]))
        return {"weights": self.base(weights)}

    def base(self, weights: Weights) -> Weights:
        """Return the layers that all clients share."""
        return {name: leaf for name, leaf in weights.items() if not self._is_personal(name)}

    def personal(self, weights: Weights) -> Weights:
        """Return the layers that a client keeps to itself."""
        return {name: leaf for name, leaf in weights.items() if self._is_personal(name)}

    def _is_personal(self, name: str) -> bool:
        return name.split(".")[0] in LAYERS[-self.personal_layers :]
