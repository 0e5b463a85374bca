"""How many windows and sensors per second train: all clients of an actor at once, and one torch GRU after another.

    python benchmarks/forecasting.py [SENSORS]

One epoch of the clients' half of CNFGNN (63,873 parameters per sensor) with the published optimiser, for several sizes
of a minibatch. "One after another" is torch.nn.GRU as the published code uses it: an encoder over the history, then the
decoder step by step, each sensor with an Adam of its own, in one process with one or two threads, whichever is faster.
"Batched" is the step of an actor, in one process with one thread; "two actors" two such processes at the same time.
Wall-clock seconds; run it on a machine that is otherwise idle.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedgraph_sim.algorithms.cnfgnn import Cnfgnn
from fedgraph_sim.algorithms.nn.seq2seq import sequences
from fedgraph_sim.datasets.diffusion import Diffusion
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.series_split import ChronologicalSplit
from fedgraph_sim.engine.cohort import InlineCohort
from fedgraph_sim.engine.federation import Federation, Task
from fedgraph_sim.engine.host import ClientHost
from fedgraph_sim.engine.ledger import Ledger
from fedgraph_sim.engine.memory import keep_large_blocks
from fedgraph_sim.engine.series_tensors import SeriesTensors

HIDDEN = 64
WINDOWS = 512
BATCHES = (8, 32, 128)
REPEATS = 3
CPU = torch.device("cpu")


def network(num_sensors: int) -> SensorSeries:
    """Return series with `WINDOWS` training windows."""
    data = Diffusion(num_roads=num_sensors, road_length=1, num_junctions=0, length=WINDOWS + 23)
    return ChronologicalSplit(train=1, val=0, test=0).apply(data.load(None, Path()), 0)


class Forecaster(nn.Module):
    """Encoder and decoder as in the published code."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.GRU(2, HIDDEN)
        self.decoder = nn.GRU(2, 2 * HIDDEN)
        self.head = nn.Linear(2 * HIDDEN, 1)

    def forward(self, inputs: Tensor, steps: Tensor) -> Tensor:
        """Return the forecast [horizon, B]."""
        _, state = self.encoder(inputs)
        state = torch.cat([state, torch.zeros_like(state)], dim=-1)
        outputs: list[Tensor] = []
        frame = steps[:1]
        for step in range(len(steps)):
            hidden, state = self.decoder(frame, state)
            outputs.append(self.head(hidden)[..., 0])
            frame = torch.stack([outputs[-1], steps[step : step + 1, :, 1]], dim=-1)
        return torch.cat(outputs)


def one_after_another(num_sensors: int, batch: int, threads: int) -> float:
    """Return windows x sensors per second of separate torch models."""
    torch.set_num_threads(threads)
    series = SeriesTensors.of(network(num_sensors), CPU)
    rows = sequences(series, series.train, {"mean": torch.tensor(55.0), "std": torch.tensor(5.0)})
    models = [Forecaster() for _ in range(num_sensors)]
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]

    def epoch() -> None:
        for sensor, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            for places in torch.split(torch.randperm(WINDOWS) + sensor * WINDOWS, batch):
                optimizer.zero_grad()
                error = model(rows.inputs[:, places], rows.steps[:, places]) - rows.target[:, places]
                error.square().mean().backward()
                optimizer.step()

    return num_sensors * WINDOWS / _seconds(epoch)


def batched(num_sensors: int, batch: int) -> float:
    """Return windows x sensors per second of the step of an actor with one thread."""
    keep_large_blocks()
    torch.set_num_threads(1)
    series = network(num_sensors)
    algorithm = Cnfgnn(hidden=HIDDEN, batch_size=batch)
    data = {at: SeriesTensors.of(series.part(np.array([at])), CPU) for at in range(num_sensors)}
    fed = Federation(
        InlineCohort((range(num_sensors),), (ClientHost(algorithm, data, batched=True),)),
        num_clients=num_sensors,
        task=Task(num_features=2, num_classes=1, client_graph=series.adjacency),
        seed=0,
        ledger=Ledger(),
    )
    algorithm.setup(fed)
    return num_sensors * WINDOWS / _seconds(lambda: fed.call(algorithm.train))


def two_actors(num_sensors: int, batch: int) -> float:
    """Return the sum of two processes that share the sensors."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(batched, [2, 2], [batch, batch]))  # all is imported before the time is taken
        return sum(pool.map(batched, [num_sensors // 2] * 2, [batch] * 2))


def _seconds(function) -> float:  # type: ignore[no-untyped-def]
    function()
    function()  # a step is written down the second time
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return sorted(times)[REPEATS // 2]


def main() -> None:
    """Print a table."""
    num_sensors = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    print(f"{num_sensors} sensors, {WINDOWS} windows each; windows x sensors per second")
    print("| minibatch | one after another | batched, one actor | two actors | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for batch in BATCHES:
        slow = max(one_after_another(max(num_sensors // 8, 1), batch, threads) for threads in (1, 2))
        one, two = batched(num_sensors, batch), two_actors(num_sensors, batch)
        print(f"| {batch} | {slow:.0f} | {one:.0f} | {two:.0f} | {two / slow:.1f} |", flush=True)


if __name__ == "__main__":
    main()
