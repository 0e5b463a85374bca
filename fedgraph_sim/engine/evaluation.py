"""Evaluation protocols, named because their numbers are not comparable."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.datasets.storage import Store
from fedgraph_sim.engine.algorithm import Algorithm
from fedgraph_sim.engine.call import Call
from fedgraph_sim.engine.client_data import client_data
from fedgraph_sim.engine.cohort import InlineCohort
from fedgraph_sim.engine.config import Protocol
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.host import ClientHost
from fedgraph_sim.engine.ledger import SERVER
from fedgraph_sim.engine.metrics import metric_of
from fedgraph_sim.engine.replies import Replies
from fedgraph_sim.engine.tree import Tree


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation: `metrics` of the whole federation, and per client `values` with their `counts` of nodes or links.

    A value is NaN, and a metric None, where none contributes to it. Of forecasts, `steps` are the metrics for each step
    ahead, pooled over all clients, and `forecast` the curves [num_clients, n] of each client.
    """

    metrics: dict[str, float | None]
    clients: tuple[int, ...]
    values: dict[str, NDArray[np.float64]]
    counts: dict[str, NDArray[np.int64]]
    steps: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    forecast: dict[str, NDArray[np.float32]] = field(default_factory=dict)


class Evaluator:
    """Measures the models of a federation by one protocol.

    ``local-mean``: (1/K) sum_k f(s_k / n_k) over the K clients with n_k > 0, each judging its own model on its own
    nodes, links or readings · ``local-weighted``: f(sum_k s_k / sum_k n_k) of the same · ``global``: the server's model
    on the whole, unsplit graph, at the nodes that some client holds (or on all links, also those that no client holds);
    where there is no such model but clients lend theirs, the unweighted mean over these. (s_k, n_k) are the sum and
    count that the `evaluate` step returns, and f is the root for metrics that are one.
    """

    def __init__(
        self, algorithm: Algorithm, protocol: Protocol, store: Store[Any], link_split: LinkSplit | None = None
    ) -> None:
        self._algorithm = algorithm
        self._protocol = protocol
        # One party that holds everything is the global case already.
        self._whole = _judge(algorithm, store, link_split) if protocol == "global" and not algorithm.pooled else None

    def begin(self, fed: Federation, server: Tree) -> Replies:
        """Ask the clients, or the judge of the whole graph."""
        algorithm = self._algorithm
        if self._whole is None or fed.round <= algorithm.preparation_rounds:
            return algorithm.ask_for_scores(fed, server)
        if algorithm.has_global_model:
            return self._judged(algorithm.global_model(server), fed.round, SERVER)
        models = fed.call(algorithm.lend)
        return Replies.joined([self._judged(model, fed.round, client) for client, model in models.items()])

    def _judged(self, model: Tree, round: int, owner: int) -> Replies:
        """Evaluate a model on the whole graph; the reply counts as its owner's."""
        assert self._whole is not None
        call = Call(step="evaluate", round=round, seed=0, clients=(SERVER,), shared=model)
        return self._whole.run(call).of((owner,))

    def finish(self, replies: Replies) -> Evaluation:
        """Put the answers together."""
        reply = dict(replies.tree)
        steps, forecast = reply.pop("steps", {}), reply.pop("forecast", {})
        pairs = {name: leaf.double().numpy() for name, leaf in reply.items()}
        return Evaluation(
            metrics={name: self._reduce(name, pair) for name, pair in pairs.items()},
            clients=() if SERVER in replies.clients else replies.clients,
            values={name: metric_of(name).of_mean(ratio(pair)) for name, pair in pairs.items()},
            counts={name: pair[:, 1].astype(np.int64) for name, pair in pairs.items()},
            steps={
                name: metric_of(name).of_mean(ratio(leaf.double().sum(dim=0).numpy())) for name, leaf in steps.items()
            },
            forecast={name: leaf.float().numpy() for name, leaf in forecast.items()},
        )

    def _reduce(self, name: str, pair: NDArray[np.float64]) -> float | None:
        if not pair[:, 1].any():
            return None
        lent = self._protocol == "global" and not self._algorithm.has_global_model
        if self._protocol == "local-mean" or lent:
            return float(np.nanmean(metric_of(name).of_mean(ratio(pair))))
        return float(metric_of(name).of_mean(ratio(pair.sum(axis=0, keepdims=True)))[0])


def ratio(pair: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sum / count of each row of `pair` [num_clients, 2], NaN where the count is 0."""
    means: NDArray[np.float64] = np.full(len(pair), np.nan)
    return np.divide(pair[:, 0], pair[:, 1], out=means, where=pair[:, 1] > 0)


def _judge(algorithm: Algorithm, store: Store[Any], link_split: LinkSplit | None) -> InlineCohort:
    whole = client_data(store.whole(), torch.device("cpu"), link_split)
    return InlineCohort(((SERVER,),), (ClientHost(algorithm, {SERVER: whole}),))
