"""Gated recurrent units over a whole sequence as one operation, for one client or for all clients of an actor at once.

Step by step, ``torch.vmap`` of an unrolled recurrence is hundreds of small operations per sequence. Here the recurrence
and its derivative are written by hand, one client's rows (or a few clients') after another, so that what a step works
on stays in the processor's cache; for ``torch.vmap``, and a program that repeats a step, all of it is one operation.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 256
"""Rows of sequences that are computed at a time: what a step needs of them fits the second-level cache."""

LAYER = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""The parameters of a layer, named and shaped as those of ``torch.nn.GRU``."""


def gru_scan(
    inputs: Tensor, feedback: Tensor, state: Tensor, head: tuple[Tensor, Tensor], layers: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the outputs y [T, B] and the last state [L, B, H] of L layers of gated recurrent units and a linear head.

    ``r = s(W_ir x + b_ir + W_hr h + b_hr)``, ``z = s(W_iz x + b_iz + W_hz h + b_hz)``,
    ``n = tanh(W_in x + b_in + r (W_hn h + b_hn))``, ``h' = (1 - z) n + z h`` and ``y = h' . w + c``, as torch.nn.GRU
    (Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014).

    `inputs` [T, B, I] has no derivative; `feedback` [T] is 0 or 1: where it is 1 the step before's output stands in for
    the first entry of the input. `state` is [L, B, H], `head` w [H] and c [1], or both empty where nothing is put out;
    `layers` the four tensors of `LAYER` for one layer after another.
    """
    outputs, last, _, _, _ = _scan(inputs, feedback, state, *head, *layers)
    return outputs, last


class _Scan(torch.autograd.Function):
    """One client's sequences; the rule for ``torch.vmap`` computes all clients in one operation."""

    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(result[0] for result in _forward([tensor[None] for tensor in tensors]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        _, feedback, _, head_weight, _, *layers = inputs
        _, _, seen, states, gates = output
        ctx.mark_non_differentiable(seen, states, gates)
        ctx.save_for_backward(seen, feedback, states, gates, head_weight, *layers)
        ctx.set_materialize_grads(True)

    @staticmethod
    def backward(ctx: Any, outputs: Tensor, last: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        state, *rest = _scan_backward(outputs, last, *ctx.saved_tensors)
        return None, None, state, *rest

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> Any:
        results = _forward(_with_client_axis(info.batch_size, in_dims, tensors))
        return tuple(results), (0,) * len(results)


class _ScanBackward(torch.autograd.Function):
    """The derivative of `_Scan`; it has none itself."""

    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(result[0] for result in _backward([tensor[None] for tensor in tensors]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Keep nothing."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> Any:
        results = _backward(_with_client_axis(info.batch_size, in_dims, tensors))
        return tuple(results), (0,) * len(results)


# What torch declares of `apply` has no types.
_scan: Callable[..., tuple[Tensor, ...]] = _Scan.apply
_scan_backward: Callable[..., tuple[Tensor, ...]] = _ScanBackward.apply


def _with_client_axis(count: int, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    return [
        tensor.expand(count, *tensor.shape) if dimension is None else tensor.movedim(dimension, 0)
        for tensor, dimension in zip(tensors, in_dims, strict=True)
    ]


def _forward(tensors: Sequence[Tensor]) -> list[Tensor]:
    inputs, feedback, state, head_weight, head_bias, *layers = tensors
    results: list[Tensor] = torch.ops.fedgraph_sim.gru_scan(inputs, feedback, state, head_weight, head_bias, layers)
    return results


def _backward(tensors: Sequence[Tensor]) -> list[Tensor]:
    outputs, last, seen, feedback, states, gates, head_weight, *layers = tensors
    results: list[Tensor] = torch.ops.fedgraph_sim.gru_scan_backward(
        outputs, last, seen, feedback, states, gates, head_weight, layers
    )
    return results


class _Layer(NamedTuple):
    """One layer of some clients. A step's four parts lie side by side: s = W_hn h + b_hn, then r, z and n.

    `of_input` [K, 3 H, width] gives r, z and n, `of_state` [K, 3 H, H] gives s, r and z; `bias` [K, 1, 4 H].
    """

    of_input: Tensor
    of_state: Tensor
    bias: Tensor


def _layers(tensors: Sequence[Tensor], clients: slice) -> list[_Layer]:
    parts = [tensor[clients] for tensor in tensors]
    layers = []
    for of_input, of_state, bias_ih, bias_hh in zip(*(parts[at::4] for at in range(4)), strict=True):
        width = of_state.shape[-1]
        bias = F.pad(bias_ih, (width, 0)) + F.pad(bias_hh.roll(width, dims=1), (0, width))
        layers.append(_Layer(of_input, of_state.roll(width, dims=1), bias[:, None]))
    return layers


def _pieces(num_clients: int, num_rows: int) -> Iterator[tuple[slice, slice]]:
    """Yield clients and rows of about `ROWS` rows in all."""
    clients = max(1, ROWS // num_rows)
    rows = min(num_rows, ROWS)
    for first in range(0, num_clients, clients):
        for row in range(0, num_rows, rows):
            yield slice(first, min(first + clients, num_clients)), slice(row, min(row + rows, num_rows))


_LIBRARY = torch.library.Library("fedgraph_sim", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "gru_scan(Tensor inputs, Tensor feedback, Tensor state, Tensor head_weight, Tensor head_bias, Tensor[] layers)"
    " -> Tensor[]"
)
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "gru_scan_backward(Tensor outputs, Tensor last, Tensor seen, Tensor feedback, Tensor states, Tensor gates,"
    " Tensor head_weight, Tensor[] layers) -> Tensor[]"
)


@torch.library.impl(_LIBRARY, "gru_scan", "CompositeExplicitAutograd")
def _gru_scan(
    inputs: Tensor, feedback: Tensor, state: Tensor, head_weight: Tensor, head_bias: Tensor, layers: list[Tensor]
) -> list[Tensor]:
    """Return outputs [K, T, B], last state [K, L, B, H], and what the derivative needs.

    That is: inputs with what was fed back [K, T, B, I], all states [K, L, T + 1, B, H], and s, r, z and n side by side
    [K, L, T, B, 4 H], see `_Layer`.
    """
    count, steps, rows, _ = inputs.shape
    depth, width = state.shape[1], state.shape[-1]
    outputs = inputs.new_zeros(count, steps, rows)
    seen = inputs.clone(memory_format=torch.contiguous_format)
    states = inputs.new_empty(count, depth, steps + 1, rows, width)
    states[:, :, 0] = state
    gates = inputs.new_empty(count, depth, steps, rows, 4 * width)
    for clients, part in _pieces(count, rows):
        _scan_piece(
            outputs[clients, :, part],
            seen[clients, :, part],
            feedback[clients],
            states[clients, :, :, part],
            gates[clients, :, :, part],
            (head_weight[clients], head_bias[clients]),
            _layers(layers, clients),
        )
    return [outputs, states[:, :, -1].clone(), seen, states, gates]


def _scan_piece(
    outputs: Tensor,
    seen: Tensor,
    feedback: Tensor,
    states: Tensor,
    gates: Tensor,
    head: tuple[Tensor, Tensor],
    layers: list[_Layer],
) -> None:
    for step in range(outputs.shape[1]):
        if step > 0:
            first = seen[:, step, :, 0]
            first.lerp_(outputs[:, step - 1], feedback[:, step, None])
        below = seen[:, step]
        for depth, layer in enumerate(layers):
            before, after = states[:, depth, step], states[:, depth, step + 1]
            _cell(layer, below, before, after, gates[:, depth, step])
            below = after
        if head[0].shape[-1]:
            torch.add(_times_vector(below, head[0]), head[1], out=outputs[:, step])


def _cell(layer: _Layer, x: Tensor, before: Tensor, after: Tensor, gates: Tensor) -> None:
    """Do one step of a layer: write the state `after` and s, r, z and n."""
    width = before.shape[-1]
    reset_of, r, z, n = gates.chunk(4, dim=-1)
    reset_of.copy_(layer.bias[..., :width])
    torch.baddbmm(layer.bias[..., width:], x, layer.of_input.transpose(1, 2), out=gates[..., width:])
    gates[..., : 3 * width].baddbmm_(before, layer.of_state.transpose(1, 2))
    gates[..., width : 3 * width].sigmoid_()
    # tanh a = 2 s(2 a) - 1, since torch's sigmoid takes a fifth of the time of its tanh
    n.addcmul_(r, reset_of).mul_(2).sigmoid_().mul_(2).sub_(1)
    torch.lerp(n, before, z, out=after)


@torch.library.impl(_LIBRARY, "gru_scan_backward", "CompositeExplicitAutograd")
def _gru_scan_backward(
    outputs: Tensor,
    last: Tensor,
    seen: Tensor,
    feedback: Tensor,
    states: Tensor,
    gates: Tensor,
    head_weight: Tensor,
    layers: list[Tensor],
) -> list[Tensor]:
    """Return the gradients of the first state, of the head's two tensors and of each of `layers`.

    `outputs` and `last` are the gradients of what `_gru_scan` returned first.
    """
    count, _, rows = outputs.shape
    state = torch.empty_like(last, memory_format=torch.contiguous_format)
    shapes = (head_weight.shape, (count, min(head_weight.shape[-1], 1)), *(leaf.shape for leaf in layers))
    gradients = [head_weight.new_zeros(shape) for shape in shapes]
    for clients, part in _pieces(count, rows):
        state[clients, :, part] = last[clients, :, part]
        _backward_piece(
            outputs[clients, :, part].clone(),
            state[clients, :, part],
            seen[clients, :, part],
            feedback[clients],
            states[clients, :, :, part],
            gates[clients, :, :, part],
            head_weight[clients],
            _layers(layers, clients),
            [gradient[clients] for gradient in gradients],
        )
    return [state, *gradients]


def _backward_piece(
    outputs: Tensor,
    state: Tensor,
    seen: Tensor,
    feedback: Tensor,
    states: Tensor,
    gates: Tensor,
    head_weight: Tensor,
    layers: list[_Layer],
    gradients: list[Tensor],
) -> None:
    """Turn `state` from the gradient of the last state into that of the first, and add up those of the parameters.

    `outputs` changes, too: it gains the gradients that come back through what was fed back.
    """
    steps, depth = outputs.shape[1], len(layers)
    errors = torch.empty_like(gates)
    width, has_head = state.shape[-1], head_weight.shape[-1] > 0
    for step in reversed(range(steps)):
        if has_head:
            state[:, -1] += outputs[:, step, :, None] * head_weight[:, None]
        for at in reversed(range(depth)):
            error, layer = errors[:, at, step], layers[at]
            _cell_backward(layer, state[:, at], states[:, at, step], gates[:, at, step], error)
            if at > 0:
                state[:, at - 1] += error[..., width:] @ layer.of_input
        if step > 0 and has_head:
            back = _times_vector(errors[:, 0, step, :, width:], layers[0].of_input[..., 0])
            outputs[:, step - 1].addcmul_(back, feedback[:, step, None])
    if has_head:
        gradients[0] += (outputs.flatten(1)[:, None] @ states[:, -1, 1:].flatten(1, 2))[:, 0]
        gradients[1] += outputs.sum(dim=(1, 2))[:, None]
    for at in range(depth):
        below = seen if at == 0 else states[:, at - 1, 1:]
        _add_parameters(gradients[2 + 4 * at : 6 + 4 * at], errors[:, at], below, states[:, at, :-1])


def _times_vector(rows: Tensor, vector: Tensor) -> Tensor:
    """Return rows [K, B, width] times vector [K, width]."""
    return (rows @ vector[..., None])[..., 0]


def _cell_backward(layer: _Layer, state: Tensor, before: Tensor, gates: Tensor, error: Tensor) -> None:
    """Carry the gradient `state` [K, B, H] back over one step, and write the errors of s, r, z and n."""
    width = before.shape[-1]
    reset_of, r, z, n = gates.chunk(4, dim=-1)
    error_reset_of, error_r, error_z, error_n = error.chunk(4, dim=-1)
    torch.addcmul(state, state, z, value=-1, out=error_n)  # (1 - z) state
    torch.sub(before, n, out=error_z)
    error_z.mul_(error_n).mul_(z)
    error_n.sub_(error_n * n.square())
    torch.mul(error_n, r, out=error_reset_of)
    torch.mul(error_reset_of, reset_of, out=error_r)
    error_r.sub_(error_r * r)
    state.mul_(z).baddbmm_(error[..., : 3 * width], layer.of_state)


def _add_parameters(gradients: list[Tensor], errors: Tensor, below: Tensor, before: Tensor) -> None:
    """Add one layer's gradients of W_i, W_h, b_i and b_h, from all steps at once."""
    width = before.shape[-1]
    errors = errors.flatten(1, 2)
    with_ones = F.pad(below.flatten(1, 2), (0, 1), value=1.0)
    of_input = (with_ones.transpose(1, 2) @ errors).transpose(1, 2)  # [K, 4 H, width + 1], the biases at last
    of_state = errors[..., : 3 * width].transpose(1, 2) @ before.flatten(1, 2)
    gradients[0] += of_input[:, width:, :-1]
    gradients[1] += of_state.roll(-width, dims=1)
    gradients[2] += of_input[:, width:, -1]
    gradients[3] += of_input[:, : 3 * width, -1].roll(-width, dims=1)
