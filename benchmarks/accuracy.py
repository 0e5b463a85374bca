"""Accuracy in the published setting: Cora, METIS into 10 clients, 100 rounds of one local epoch, several seeds.

Run: python benchmarks/accuracy.py DATA_DIR [--seeds 10]

Largest component, row-normalised features, 20/40/40 train/validation/test drawn anew for each seed, one METIS partition
for all seeds, GCN of 128 hidden units, Adam with rate 0.01 and weight decay 1e-6, uniform average; test accuracy at
the round of the best validation accuracy, as the unweighted mean over clients (protocol ``local-mean``).
"""

import argparse
import tempfile
from pathlib import Path
from statistics import mean, stdev

from fedgraph_sim.configuration import load_config
from fedgraph_sim.engine.launch import Folders, prepare_run
from fedgraph_sim.engine.report import Outcome

METHODS = {"local": (), "fedavg": ("algorithm.weighting=uniform",), "centralized": ()}


def accuracy(algorithm: str, seed: int, data_dir: Path, folder: Path) -> float:
    """Return the test accuracy of one run."""
    config = load_config(None, {"algorithm": algorithm, "dataset": "Cora", "seed": seed}, METHODS[algorithm])
    folders = Folders(run=folder / f"{algorithm}-{seed}", cache=folder / "cache", data=data_dir)
    *_, outcome = prepare_run(config, folders, inline=True, force=False, started=0.0).events()
    assert isinstance(outcome, Outcome)
    assert outcome.status == "completed", outcome.error
    return float(outcome.summary["test_accuracy"])


def main() -> None:
    """Print one row per method: the first three seeds, and all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for algorithm in METHODS:
            runs = [
                100 * accuracy(algorithm, seed, options.data_dir.absolute(), Path(folder))
                for seed in range(options.seeds)
            ]
            each = " ".join(f"{run:.1f}" for run in runs)
            first = f"{mean(runs[:3]):.2f} +- {stdev(runs[:3]):.2f}"
            print(
                f"{algorithm:12s} seeds 0-2: {first}   all: {mean(runs):.2f} +- {stdev(runs):.2f}   ({each})",
                flush=True,
            )


if __name__ == "__main__":
    main()
