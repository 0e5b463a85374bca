"""What all algorithms that forecast a sensor's series share: parameters, local training and evaluation."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedgraph_sim.algorithms.nn.forecast_errors import Sums, added, forecast_errors
from fedgraph_sim.algorithms.nn.optimizers import Adam
from fedgraph_sim.algorithms.nn.seq2seq import Seq2Seq, Sequences, Weights, drawn_truth, sequences
from fedgraph_sim.datasets.kind import Kind
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.engine.algorithm import Algorithm, Client, client_step
from fedgraph_sim.engine.federation import Federation
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.seeds import seed_for

EVALUATED = 256
"""Windows that are evaluated at a time, to bound memory."""
PLOTTED = 288
"""Windows of the test, from its begin, whose forecasts are kept to be drawn: a day of five minutes each."""

Penalty = Callable[[Weights], Tensor]
Forecast = Callable[..., Tensor]
"""``forecast(weights, rows=..., places=..., is_given=...)`` in training: `places` [B] are the windows' numbers."""
Predict = Callable[[Sequences, Tensor], Tensor]
"""``predict(sequences, places) -> forecast [horizon, R]``; `places` are the windows' numbers among all that count."""


class Forecaster(Algorithm):
    """Training by Adam on minibatches of a client's own windows, with scheduled sampling, on the mean squared error."""

    kind: ClassVar[Kind] = SERIES

    hidden: int = Field(
        100,
        ge=1,
        le=65_536,
        description="width of the states of encoder and decoder",
        json_schema_extra={"unit": "entries"},
    )
    layers: int = Field(
        1, ge=1, le=8, description="layers of encoder and decoder", json_schema_extra={"unit": "layers"}
    )
    lr: float = Field(0.001, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(0.0, ge=0, description="factor of the L2 penalty that Adam adds to the gradient")
    batch_size: int = Field(128, ge=1, description="windows of a minibatch", json_schema_extra={"unit": "windows"})
    local_epochs: int = Field(
        1,
        ge=1,
        le=100_000,
        description="passes over its windows of each participant in a round",
        json_schema_extra={"unit": "epochs"},
    )
    optimizer_state: Literal["keep", "reset"] = Field(
        "reset", description="whether a client keeps Adam's moments from round to round, or starts each round afresh"
    )
    sampling_decay: float = Field(
        1.0,
        gt=0,
        le=1e9,
        description="scheduled sampling: after i batches the decoder reads the truth with probability"
        " k / (k + exp(i / k)); this is k, and 1 is practically never",
        json_schema_extra={"unit": "batches"},
    )
    masked_loss: bool = Field(
        False, description="leave missing readings out of the loss; false: they count as the 0 that stands for them"
    )

    @property
    def metric(self) -> str:
        """The root of the mean squared error, missing readings included."""
        return "rmse"

    @property
    def network(self) -> Seq2Seq:
        """The model as a function of weights."""
        return Seq2Seq(encoder=self.hidden, decoder=self.hidden, layers=self.layers)

    @property
    def optimizer(self) -> Adam:
        """The optimiser as a function of weights and gradients."""
        return Adam(lr=self.lr, weight_decay=self.weight_decay)

    def setup(self, fed: Federation) -> Tree:
        """Draw the initial weights, and learn mean and spread of all training readings without seeing any."""
        weights = self.initial_weights(fed)
        sums = fed.call(self.start, weights).stack("sums")  # [num_clients, 4]
        count, total, square, _ = sums.sum(dim=0)
        mean = total / count
        spread = (square / count - mean.square()).clamp(min=0).sqrt()
        scale = {"mean": mean.float(), "std": torch.where(spread > 0, spread, 1.0).float()}
        fed.publish(scale)
        return {"weights": weights, "is_seen": sums[:, 0] > 0, "num_windows": sums[0, 3]}

    def initial_weights(self, fed: Federation) -> Weights:
        """Return the weights that the server draws before the first round."""
        return self.network.init(torch.Generator().manual_seed(seed_for(fed.seed, "weights")))

    def participants(self, fed: Federation, server: Tree) -> tuple[int, ...]:
        """Return the sampled clients that take part in training."""
        return tuple(client for client in fed.sample() if server["is_seen"][client])

    @client_step
    def start(self, client: Client, weights: Weights) -> Tree:
        """Take `weights` as the own model; tell count, sum, sum of squares and windows of the training."""
        client.state = self.first_state(client, weights)
        series = client.series
        known = series.values[series.is_seen, : series.num_train_steps].double()
        count, windows = known.new_tensor(known.numel()), known.new_tensor(len(series.train))
        return {"sums": torch.stack([count, known.sum(), known.square().sum(), windows])}

    def first_state(self, client: Client, weights: Weights) -> Tree:
        """Return a client's state before the first round."""
        moments = {"optimizer": self.optimizer.init(weights)} if self.optimizer_state == "keep" else {}
        return {"weights": weights, "batches": torch.zeros(()), "train_loss": torch.zeros(2)} | moments

    def forecast(self, weights: Weights, rows: Sequences, is_given: Tensor | None = None) -> Tensor:
        """Return the normalised forecast [horizon, R]."""
        return self.network.decode(weights, self.network.encode(weights, rows.inputs), rows.steps, is_given)

    def fit(
        self,
        client: Client,
        weights: Weights,
        *,
        forecast: Forecast | None = None,
        penalty: Penalty | None = None,
    ) -> Weights:
        """Train `weights` for the local epochs on the own windows (plus `penalty`), and keep the result as own model.

        `forecast` stands in for that of encoder and decoder alone. A client whose sensors are unseen keeps what it
        received.
        """
        starts, optimizer, where = client.series.train, self.optimizer, client.series.is_seen.any()
        moments = client.state["optimizer"] if self.optimizer_state == "keep" else optimizer.init(weights)
        batches, losses = client.state["batches"], []
        for epoch in range(self.local_epochs):
            random = client.random.fold(epoch)
            order = random.permutation(len(starts))
            for number, places in enumerate(torch.split(order, self.batch_size)):
                rows = sequences(client.series, starts[places], client.public)
                is_given = drawn_truth(random.fold(number), len(rows.steps), batches, self.sampling_decay)
                predict = partial(forecast or self._forecast, rows=rows, places=places, is_given=is_given)
                loss = partial(self._loss, rows=rows, predict=predict, penalty=penalty)
                gradients, value = torch.func.grad_and_value(loss)(weights)
                weights, moments = optimizer.update(weights, gradients, moments, where=where)
                batches = batches + 1
                losses.append(value * len(places))
        kept = {"optimizer": moments} if self.optimizer_state == "keep" else {}
        count = float(self.local_epochs * len(starts))
        train_loss = torch.stack([torch.stack(losses).sum(), torch.as_tensor(count)]).detach()
        client.state = client.state | kept | {"weights": weights, "batches": batches, "train_loss": train_loss}
        return weights

    def _forecast(self, weights: Weights, *, rows: Sequences, places: Tensor, is_given: Tensor) -> Tensor:
        return self.forecast(weights, rows, is_given)

    def _loss(
        self, weights: Weights, *, rows: Sequences, predict: Callable[[Weights], Tensor], penalty: Penalty | None
    ) -> Tensor:
        error = self.loss(predict(weights), rows)
        return error if penalty is None else error + penalty(weights)

    def loss(self, forecast: Tensor, rows: Sequences) -> Tensor:
        """Return the mean squared error of normalised readings of seen sensors, 0 where there is none."""
        counted = rows.is_seen & rows.observed if self.masked_loss else rows.is_seen.expand(rows.target.shape)
        error = torch.where(counted, (forecast - rows.target).square(), 0.0)
        return error.sum() / counted.sum().clamp(min=1)

    @client_step(batched=True)
    def evaluate(self, client: Client, message: Weights | None) -> Tree:
        """Return the errors of validation and test, of `message` or the own model."""
        weights = client.state["weights"] if message is None else message
        return self.scores(client, lambda rows, places: self.forecast(weights, rows))

    def scores(self, client: Client, predict: Predict) -> Tree:
        """Return all figures, those of the test for each step, and its first forecasts of the last step.

        Validation is that of seen sensors; the test is that of all, and apart of those unseen.
        """
        series = client.series
        val, _ = self._errors(client, series.val, 0, predict, series.is_seen)
        test, curves = self._errors(client, series.test, len(series.val), predict, torch.ones_like(series.is_seen))
        figures = {"train_loss": client.state["train_loss"].double()}
        figures |= {f"val_{name}": pair.sum(dim=0) for name, pair in val.items() if name != "rmse_unseen"}
        figures |= {f"test_{name}": pair.sum(dim=0) for name, pair in test.items()}
        steps = {f"test_{name}": pair for name, pair in test.items() if name != "rmse_unseen"}
        return figures | {"steps": steps, "forecast": curves}

    def _errors(
        self, client: Client, starts: Tensor, first: int, predict: Predict, counted: Tensor
    ) -> tuple[Sums, dict[str, Tensor]]:
        series, scale = client.series, client.public
        horizon, nodes = series.horizon, series.num_nodes
        sums: Sums | None = None
        curves: dict[str, list[Tensor]] = {"truth": [], "forecast": []}
        for at in range(0, len(starts), EVALUATED):
            chosen = starts[at : at + EVALUATED]
            rows = sequences(series, chosen, scale)
            places = torch.arange(first + at, first + at + len(chosen), device=series.device)
            forecast = predict(rows, places) * scale["std"] + scale["mean"]
            counts, unseen = (mask.repeat_interleave(len(chosen)) for mask in (counted, ~series.is_seen))
            errors = forecast_errors(forecast, rows.truth, rows.observed, counts)
            errors["rmse_unseen"] = forecast_errors(forecast, rows.truth, rows.observed, unseen)["rmse"]
            sums = added(sums, errors)
            for name, values in (("truth", rows.truth), ("forecast", forecast)):
                curves[name].append(values[-1].reshape(nodes, -1))
        if sums is None:
            empty = torch.zeros(horizon, 2, dtype=torch.double, device=series.device)
            names = [f"{name}{which}" for which in ("", "_masked") for name in ("rmse", "mae", "mape")]
            return dict.fromkeys((*names, "rmse_unseen"), empty), {}
        return sums, {name: torch.cat(parts, dim=1)[:, :PLOTTED] for name, parts in curves.items()}
