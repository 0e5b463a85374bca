"""An encoder and a decoder of gated recurrent units that forecast a series, as functions of weights.

Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014; for traffic, Li et al., ICLR 2018.
"""

from dataclasses import dataclass
from math import log, sqrt

import torch
from torch import Tensor

from fedgraph_sim.algorithms.nn.gru_scan import LAYER, gru_scan
from fedgraph_sim.algorithms.nn.models import uniform
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.series_tensors import SeriesTensors
from fedgraph_sim.engine.tree import Tree

Weights = dict[str, Tensor]

NUM_INPUTS = 2
"""A reading and the time of day."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """R rows to forecast: of each of B windows one per sensor, R = n B, the windows of a sensor together.

    `inputs` [history, R, 2] and `steps` [horizon, R, 2] are what encoder and decoder read, `steps` with the truth of
    the step before; `target` [horizon, R] is normalised like them, `truth` is not, and `observed` tells what was read;
    `is_seen` [R], which sensors take part in training.
    """

    inputs: Tensor
    steps: Tensor
    target: Tensor
    truth: Tensor
    observed: Tensor
    is_seen: Tensor


def sequences(series: SeriesTensors, starts: Tensor, scale: Tree) -> Sequences:
    """Return the windows that begin at `starts` [B], less ``scale["mean"]`` and divided by ``scale["std"]``."""
    windows = series.windows(starts)
    rows = (series.num_nodes * len(starts), -1)
    time = windows.time_of_day.expand(windows.values.shape).reshape(rows)
    values = ((windows.values - scale["mean"]) / scale["std"]).reshape(rows)
    frames = torch.stack([values, time], dim=-1).movedim(1, 0)
    history = series.history
    return Sequences(
        inputs=frames[:history],
        steps=frames[history - 1 : -1],
        target=frames[history:, :, 0],
        truth=windows.values.reshape(rows).T[history:],
        observed=windows.observed.reshape(rows).T[history:],
        is_seen=series.is_seen.repeat_interleave(len(starts)),
    )


@dataclass(frozen=True, kw_only=True)
class Seq2Seq:
    """The encoder reads the history; the decoder starts from its last state and puts out a reading after another.

    `encoder` and `decoder` are the widths of their states: where the decoder's is larger, the encoder's last state is
    followed by an embedding that fills it up. The decoder's first input is the last frame that the encoder read, later
    ones are its own output and the time of day; in training the truth may stand in for the output.
    """

    encoder: int
    decoder: int
    layers: int = 1

    def init(self, generator: torch.Generator) -> Weights:
        """Draw all weights uniformly in +-1 / sqrt(width of the state), as torch.nn.GRU and Linear do."""
        weights: Weights = {}
        for part, width in (("encoder", self.encoder), ("decoder", self.decoder)):
            for layer in range(self.layers):
                below = NUM_INPUTS if layer == 0 else width
                shapes = ((3 * width, below), (3 * width, width), (3 * width,), (3 * width,))
                for name, shape in zip(LAYER, shapes, strict=True):
                    weights[f"{part}.{layer}.{name}"] = uniform(shape, 1 / sqrt(width), generator)
        weights["head.weight"] = uniform((self.decoder,), 1 / sqrt(self.decoder), generator)
        weights["head.bias"] = uniform((1,), 1 / sqrt(self.decoder), generator)
        return weights

    def encode(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return the encoder's last state [layers, R, encoder] for `inputs` [history, R, 2]."""
        history, rows, _ = inputs.shape
        none = inputs.new_empty(0)
        start = inputs.new_zeros(self.layers, rows, self.encoder)
        layers = self._layers(weights, "encoder")
        return gru_scan(inputs, inputs.new_zeros(history), start, (none, none), layers)[1]

    def decode(self, weights: Weights, state: Tensor, steps: Tensor, is_given: Tensor | None = None) -> Tensor:
        """Return the forecast [horizon, R] from the first `state` [layers, R, decoder].

        `steps` is [horizon, R, 2]; `is_given` [horizon], 0 or 1, tells where the decoder reads the truth of the step
        before instead of its own output; None is nowhere. The first step always reads the last frame.
        """
        own = steps.new_ones(len(steps)) if is_given is None else 1 - is_given
        feedback = own * (torch.arange(len(steps), device=steps.device) > 0)
        head = (weights["head.weight"], weights["head.bias"])
        return gru_scan(steps, feedback, state, head, self._layers(weights, "decoder"))[0]

    def _layers(self, weights: Weights, part: str) -> list[Tensor]:
        return [weights[f"{part}.{layer}.{name}"] for layer in range(self.layers) for name in LAYER]


def drawn_truth(random: RandomStream, horizon: int, num_batches: Tensor, decay: float) -> Tensor:
    """Return for each step, [horizon], 1 with probability k / (k + exp(i / k)), after i batches, and else 0.

    Bengio et al., Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks, NeurIPS 2015; k = `decay`.
    """
    probability = torch.sigmoid(log(decay) - num_batches / decay)
    return (random.uniform(horizon) < probability).to(torch.float32)
