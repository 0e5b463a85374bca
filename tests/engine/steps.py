"""The least that an algorithm is, for tests of single client steps."""

from typing import Literal

from fedgraph_sim.engine.algorithm import Algorithm


class OnlySteps(Algorithm):
    """An algorithm that does nothing by itself."""

    name: Literal["only-steps"] = "only-steps"

    def setup(self, fed):
        return {}

    def round(self, fed, server):
        return server

    def evaluate(self, client, message):
        return {}
