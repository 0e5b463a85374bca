import numpy as np
import pytest
import torch

from fedgraph_sim.algorithms.nn.seq2seq import Seq2Seq, drawn_truth, sequences
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.series_tensors import SeriesTensors

SCALE = {"mean": torch.tensor(10.0), "std": torch.tensor(2.0)}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"encoder": 64, "decoder": 128}, 63_873),
        ({"encoder": 100, "decoder": 100}, 62_501),
        ({"encoder": 200, "decoder": 200, "layers": 2}, 727_401),
    ],
)
def test_the_published_numbers_of_parameters(options, count):
    weights = Seq2Seq(**options).init(torch.Generator())
    assert sum(leaf.numel() for leaf in weights.values()) == count


def test_rows_are_windows_of_sensors_normalised(make_series):
    whole = make_series()
    series = SeriesTensors.of(whole, torch.device("cpu"))
    rows = sequences(series, torch.tensor([5, 9]), SCALE)
    nodes, windows = whole.num_nodes, 2
    assert rows.inputs.shape == (4, nodes * windows, 2)
    at = 1 * windows + 1  # sensor 1, the window that begins at step 9
    expected = (torch.from_numpy(whole.values[1, 9:16]) - 10) / 2
    torch.testing.assert_close(rows.inputs[:, at, 0], expected[:4])
    torch.testing.assert_close(rows.target[:, at], expected[4:])
    torch.testing.assert_close(rows.steps[:, at, 0], expected[3:6])  # the last frame, then the truth of the step before
    torch.testing.assert_close(rows.truth[:, at], torch.from_numpy(whole.values[1, 13:16]))
    times = torch.from_numpy(whole.time_of_day[9:16])
    torch.testing.assert_close(rows.inputs[:, at, 1], times[:4])
    torch.testing.assert_close(rows.steps[:, at, 1], times[3:6])


def test_the_decoder_reads_its_own_output_or_the_truth():
    model = Seq2Seq(encoder=3, decoder=3)
    weights = model.init(torch.Generator().manual_seed(0))
    state, steps = torch.randn(1, 5, 3), torch.randn(4, 5, 2)
    free, given = model.decode(weights, state, steps), model.decode(weights, state, steps, torch.ones(4))
    torch.testing.assert_close(free[0], given[0])
    assert not torch.allclose(free[1:], given[1:])
    other = steps.clone()
    other[1:, :, 0] = 99  # what is true of the first steps must not matter for a decoder on its own
    torch.testing.assert_close(model.decode(weights, state, other), free)


@pytest.mark.parametrize(("batches", "decay", "share"), [(0, 1000, 1000 / 1001), (7000, 1000, 0.477), (50, 1, 0)])
def test_scheduled_sampling_gives_the_truth_less_and_less(batches, decay, share):
    drawn = drawn_truth(RandomStream(torch.tensor(3)), 20_000, torch.tensor(float(batches)), float(decay))
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    assert drawn.mean() == pytest.approx(share, abs=0.01)
