"""Time and peak memory of dividing large graphs, from the raw files to the finished partition store.

Run: python benchmarks/partitioning.py DATA_DIR
Each row is one process of its own. ogbn-arxiv is the real graph with made features where DATA_DIR holds its structure
without features (ogbn_arxiv/ogbn_arxiv_graph_no_features.npz).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedgraph_sim.datasets.graph import Graph
from fedgraph_sim.datasets.graph_dataset import GraphDataset
from fedgraph_sim.datasets.planetoid import Planetoid
from fedgraph_sim.datasets.registry import PARTITIONERS
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.storage import prepare

NUM_CLIENTS = {"PubMed": 200, "arxiv": 100}
NAMES = ("metis", "louvain", "random", "label-dirichlet", "overlap")


class ArxivStructure(GraphDataset):
    """The real edges and labels of ogbn-arxiv with normally distributed features."""

    name: str = "arxiv"
    normalize_features: bool = False

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the graph."""
        assert data_dir is not None
        with np.load(data_dir / "ogbn_arxiv" / "ogbn_arxiv_graph_no_features.npz") as file:
            y, indptr, target = file["label"].astype(np.int64), file["indptr"], file["indices"]
        source = np.repeat(np.arange(len(y)), np.diff(indptr))
        return Graph(
            x=np.random.default_rng(0).standard_normal((len(y), 128), dtype=np.float32),
            edge_index=np.stack([source, target.astype(np.int64)]),
            edge_weight=None,
            y=y,
            role=np.zeros(len(y), dtype=np.int8),
            node_id=np.arange(len(y)),
            num_classes=40,
        )


def measure(dataset_name: str, partitioner_name: str, data_dir: Path) -> dict[str, float]:
    """Prepare one partition in this process."""
    dataset = ArxivStructure() if dataset_name == "arxiv" else Planetoid(name="PubMed")
    partitioner = PARTITIONERS[partitioner_name](name=partitioner_name)
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        store, _ = prepare(
            dataset,
            Split(),
            partitioner,
            num_clients=NUM_CLIENTS[dataset_name],
            seed=0,
            data_dir=data_dir,
            cache_dir=Path(cache),
        )
        prepared = time.perf_counter()
        store.load([0])
        return {
            "prepare": prepared - start,
            "load": time.perf_counter() - prepared,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "lost": 100 * store.info.edges_lost / store.info.num_edges,
            "balance": store.info.size_balance,
        }


def main() -> None:
    """Print the table, or one row as JSON for the process that asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("DATASET", "PARTITIONER"))
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(*arguments.only, arguments.data_dir)))
        return
    print("dataset  clients  partitioner      prepare s  load 1 client s  peak MB  edges lost %  max/mean size")
    for dataset, num_clients in NUM_CLIENTS.items():
        for name in NAMES:
            command = [sys.executable, __file__, str(arguments.data_dir), "--only", dataset, name]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(
                f"{dataset:8} {num_clients:7}  {name:15} {row['prepare']:10.2f} {row['load']:16.3f} {row['peak']:8.0f}"
                f" {row['lost']:13.1f} {row['balance']:14.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
