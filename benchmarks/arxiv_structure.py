"""A run on the structure of ogbn-arxiv: its real edges and labels, with features made up from a normal distribution.

Run: python benchmarks/arxiv_structure.py DATA_DIR [--clients 50] [--rounds 10]

DATA_DIR holds ogbn_arxiv/ogbn_arxiv_graph_no_features.npz. The graph is written as a user's own folder of Parquet files
and run by the command line; accuracies mean nothing with such features, time and memory do.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COMMAND = (
    *(sys.executable, "-c", "from fedgraph_sim.cli.main import main; main()"),
    *("run", "--algorithm", "fedavg", "--dataset", "folder"),
)


def write_graph(source: Path, folder: Path, num_features: int = 128) -> None:
    """Write nodes.parquet and edges.parquet."""
    with np.load(source) as file:
        y, indptr, targets = file["label"].astype(np.int64).ravel(), file["indptr"], file["indices"]
    sources = np.repeat(np.arange(len(y)), np.diff(indptr))
    x = np.random.default_rng(0).standard_normal((len(y), num_features), dtype=np.float32)
    features = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), num_features)
    pq.write_table(pa.table({"id": np.arange(len(y)), "label": y, "features": features}), folder / "nodes.parquet")
    pq.write_table(pa.table({"source": sources, "target": targets.astype(np.int64)}), folder / "edges.parquet")


def main() -> None:
    """Write the graph, run it, and print where time and memory went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--clients", default="50")
    parser.add_argument("--rounds", default="10")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_graph(options.data_dir / "ogbn_arxiv" / "ogbn_arxiv_graph_no_features.npz", folder)
        where = ("--set", f"dataset.path={folder}", "--out", temporary, "--name", "run")
        sizes = ("--clients", options.clients, "--rounds", options.rounds)
        environment = os.environ | {"FEDGRAPH_CACHE": str(folder / "cache")}
        subprocess.run((*COMMAND, *where, *sizes), check=True, env=environment)
        summary = json.loads((folder / "run" / "summary.json").read_text())
    print(json.dumps({key: summary[key] for key in ("seconds", "profile", "padding", "peak_memory")}, indent=2))


if __name__ == "__main__":
    main()
