"""Time per round of FedAvg: the engine against a plain loop and against a hand-written stacked loop, in one run.

Run: python benchmarks/rounds.py DATA_DIR [--json FILE] [--rounds 20] [--clients 10 50 100 200]

Every variant but the last does the same work on the same partition: METIS, two GCN layers of 128 and a linear head,
dropout, one local epoch of Adam, the average of all weights, and the evaluation of every client's own model after each
round. The last is FED-PUB on two actors, which also masks, embeds, compares and averages for each client by itself.
Every cell is the median over rounds of a process of its own; start-up and partitioning are shown apart.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

HIDDEN, DROPOUT, LR, WEIGHT_DECAY = 128, 0.5, 0.01, 1e-6
WARM_UP = 3
VARIANTS = ("pyg-loop", "stacked", "engine-1", "engine-2", "fedpub-2")


def open_store(dataset: str, num_clients: int, data_dir: Path, cache: Path) -> Any:
    """Return the partition that all variants use."""
    from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS
    from fedgraph_sim.datasets.split import Split
    from fedgraph_sim.datasets.storage import prepare

    parts = (DATASETS[dataset](name=dataset), Split(), PARTITIONERS["metis"](name="metis"))
    return prepare(*parts, num_clients=num_clients, seed=0, data_dir=data_dir, cache_dir=cache)[0]


def pyg_loop(store: Any, num_rounds: int) -> list[float]:
    """One model and one optimiser per client, one client after another, as a careful researcher would write it."""
    import torch
    import torch.nn.functional as F
    from scipy import sparse
    from torch import nn
    from torch_geometric.nn import GCNConv

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = GCNConv(store.info.num_features, HIDDEN, cached=True)
            self.conv2 = GCNConv(HIDDEN, HIDDEN, cached=True)
            self.head = nn.Linear(HIDDEN, store.info.num_classes)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            x = F.dropout(self.conv1(x, edge_index).relu(), DROPOUT, self.training)
            x = F.dropout(self.conv2(x, edge_index).relu(), DROPOUT, self.training)
            return self.head(x)

    clients = []
    for graph in store.load(range(store.info.num_clients)).values():
        x = graph.x.toarray() if sparse.issparse(graph.x) else graph.x
        tensors = [torch.from_numpy(a) for a in (x, graph.edge_index, graph.y, graph.role)]
        net = Net()
        adam = torch.optim.Adam(net.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
        clients.append((net, adam, *tensors))
    num_train = [graph_role.eq(1).sum().item() for *_, graph_role in clients]
    share = torch.tensor(num_train) / sum(num_train)
    server = [p.detach().clone() for p in clients[0][0].parameters()]
    times = []
    for _ in range(num_rounds + WARM_UP):
        begin = time.perf_counter()
        for net, adam, x, edge_index, y, role in clients:
            with torch.no_grad():
                for own, sent in zip(net.parameters(), server, strict=True):
                    own.copy_(sent)
            net.train()
            adam.zero_grad()
            train = role == 1
            F.cross_entropy(net(x, edge_index)[train], y[train]).backward()
            adam.step()
        with torch.no_grad():
            models = [list(net.parameters()) for net, *_ in clients]
            server = [sum(s * p for s, p in zip(share, leaf, strict=True)) for leaf in zip(*models, strict=True)]
            for net, _, x, edge_index, y, role in clients:
                net.eval()
                logits = net(x, edge_index)
                for part in (1, 2, 3):
                    mask = role == part
                    F.cross_entropy(logits[mask], y[mask]).item()
                    (logits[mask].argmax(1) == y[mask]).float().mean().item()
        times.append(time.perf_counter() - begin)
    return times[WARM_UP:]


def stacked(store: Any, num_rounds: int) -> list[float]:
    """All clients in one computation, by hand and without any engine: the practical limit."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    from scipy import sparse

    from fedgraph_sim.engine.graph_tensors import normalized_adjacency
    from fedgraph_sim.engine.memory import keep_large_blocks

    keep_large_blocks()
    torch.manual_seed(0)
    graphs = list(store.load(range(store.info.num_clients)).values())
    K, C, n = len(graphs), store.info.num_classes, max(graph.num_nodes for graph in graphs)
    width = store.info.num_features

    def csr(matrix: Any) -> torch.Tensor:
        matrix = matrix.tocsr()
        parts = [torch.from_numpy(a) for a in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))]
        return torch.sparse_csr_tensor(*parts, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)

    def padded(matrix: Any, columns: int) -> Any:
        matrix = sparse.csr_array(matrix)
        matrix.resize((n, columns))
        return matrix

    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, dense: torch.Tensor, matrix: torch.Tensor, transposed: torch.Tensor) -> torch.Tensor:
            ctx.transposed = transposed
            return matrix @ dense

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            return ctx.transposed @ gradient, None, None

    A = sparse.block_diag([padded(normalized_adjacency(graph), n) for graph in graphs])
    X = sparse.block_diag([padded(graph.x, width) for graph in graphs])
    A, A_T, X, X_T = csr(A), csr(A.T), csr(X), csr(X.T)
    y = torch.zeros(K, n, dtype=torch.long)
    masks = torch.zeros(3, K, n, dtype=torch.bool)
    for k, graph in enumerate(graphs):
        y[k, : graph.num_nodes] = torch.from_numpy(graph.y)
        for part in range(3):
            masks[part, k, : graph.num_nodes] = torch.from_numpy(graph.role == part + 1)
    counts = masks.sum(dim=2).clamp(min=1)
    share = counts[0] / counts[0].sum()

    def glorot(*shape: int) -> torch.Tensor:
        return (torch.rand(shape) * 2 - 1) * (6 / sum(shape)) ** 0.5

    shapes = (glorot(width, HIDDEN), torch.zeros(HIDDEN), glorot(HIDDEN, HIDDEN), torch.zeros(HIDDEN))
    server = [*shapes, glorot(HIDDEN, C), torch.zeros(C)]
    weights = [leaf.expand(K, *leaf.shape).clone().requires_grad_() for leaf in server]
    adam = torch.optim.Adam(weights, lr=LR, weight_decay=WEIGHT_DECAY, fused=True)

    def forward(first: torch.Tensor, training: bool) -> torch.Tensor:
        h = Times.apply(first.view(K * n, HIDDEN), A, A_T).view(K, n, HIDDEN) + weights[1][:, None]
        h = F.dropout(h.relu(), DROPOUT, training)
        h = Times.apply(torch.bmm(h, weights[2]).view(K * n, HIDDEN), A, A_T).view(K, n, HIDDEN) + weights[3][:, None]
        h = F.dropout(h.relu(), DROPOUT, training)
        return torch.bmm(h, weights[4]) + weights[5][:, None]

    times = []
    for _ in range(num_rounds + WARM_UP):
        begin = time.perf_counter()
        with torch.no_grad():
            for own, sent in zip(weights, server, strict=True):
                own.copy_(sent.expand_as(own))
        adam.zero_grad()
        logits = forward(Times.apply(weights[0].view(K * width, HIDDEN), X, X_T), training=True)
        losses = F.cross_entropy(logits.view(K * n, C), y.view(-1), reduction="none").view(K, n)
        ((losses * masks[0]).sum(1) / counts[0]).sum().backward()
        adam.step()
        with torch.no_grad():
            server = [(share @ leaf.view(K, -1)).view(leaf.shape[1:]) for leaf in weights]
            logits = forward(X @ weights[0].view(K * width, HIDDEN), training=False)
            losses = F.cross_entropy(logits.view(K * n, C), y.view(-1), reduction="none").view(K, n)
            right = (logits.argmax(2) == y).float()
            for part in range(3):
                ((losses * masks[part]).sum(1) / counts[part]).mean().item()
                ((right * masks[part]).sum(1) / counts[part]).mean().item()
        times.append(time.perf_counter() - begin)
    return times[WARM_UP:]


def engine(
    store_of: tuple[str, int, Path, Path], num_rounds: int, *, num_actors: int, algorithm: str
) -> dict[str, Any]:
    """Run the engine on real actors, as `fedgraph-sim run` does; also return the memory of the process tree."""
    import psutil

    from fedgraph_sim.configuration import load_config
    from fedgraph_sim.engine.launch import Folders, prepare_run
    from fedgraph_sim.engine.report import Outcome, RoundReport

    dataset, num_clients, data_dir, cache = store_of
    flags = {"algorithm": algorithm, "dataset": dataset, "clients": num_clients, "rounds": num_rounds + WARM_UP}
    config = load_config(None, flags, [f"engine.clients_per_actor={-(-num_clients // num_actors)}"])
    with tempfile.TemporaryDirectory() as folder:
        folders = Folders(run=Path(folder) / "run", cache=cache, data=data_dir)
        times, memory, outcome = [], 0, None
        for event in prepare_run(config, folders, inline=False, force=False, started=time.time()).events():
            if isinstance(event, RoundReport):
                times.append(event.seconds)
            elif isinstance(event, Outcome):
                outcome = event
                # Now, with all actors alive and no round under way: reading it takes longer than a round.
                me = psutil.Process()
                memory = sum(unique_memory(process) for process in (me, *me.children(recursive=True)))
        assert outcome is not None
        assert outcome.status == "completed", outcome.error
    seconds = {key: outcome.summary["seconds"][key] for key in ("startup", "partition")}
    return {"seconds": median(times[WARM_UP:]), "process_tree_bytes": memory, **seconds}


def unique_memory(process: Any) -> int:
    """Return the bytes that only this process has, plus its share of shared pages; 0 if it has just ended."""
    import psutil

    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def measure(variant: str, dataset: str, num_clients: int, num_rounds: int, data_dir: Path, cache: Path) -> Any:
    """Measure one cell, in this process."""
    name, _, num_actors = variant.rpartition("-")
    if name in ("engine", "fedpub"):
        algorithm = "fedavg" if name == "engine" else name
        store_of = (dataset, num_clients, data_dir, cache)
        return engine(store_of, num_rounds, num_actors=int(num_actors), algorithm=algorithm)
    import torch

    store = open_store(dataset, num_clients, data_dir, cache)
    torch.set_num_threads(1 if variant == "stacked" else os.cpu_count() or 1)
    times = (stacked if variant == "stacked" else pyg_loop)(store, num_rounds)
    return {"seconds": median(times)}


def around(row: dict[str, Any]) -> str:
    """Return what is not part of a round: start-up, partitioning and memory of the engine with most actors."""
    cells = [cell for name, cell in row.items() if name.startswith(("engine", "fedpub"))]
    if not cells:
        return ""
    memory = cells[-1]["process_tree_bytes"] / 1e9
    return f"   start-up {cells[-1]['startup']:.1f} s, partition {cells[-1]['partition']:.1f} s, {memory:.2f} GB"


def main() -> None:
    """Measure all cells, each in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--datasets", nargs="+", default=["Cora", "PubMed"])
    parser.add_argument("--clients", nargs="+", type=int, default=[10, 50, 100, 200])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--cell", nargs=3, metavar=("VARIANT", "DATASET", "CLIENTS"), help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        variant, dataset, clients = options.cell
        cell = measure(variant, dataset, int(clients), options.rounds, options.data_dir.absolute(), options.cache)
        print(json.dumps(cell))
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; seconds per round")
    print(f"{'':14s}" + "".join(f"{name:>12s}" for name in options.variants))
    table = []
    with tempfile.TemporaryDirectory() as cache:
        for dataset in options.datasets:
            for clients in options.clients:
                row: dict[str, Any] = {"dataset": dataset, "clients": clients}
                for variant in options.variants:
                    command = [sys.executable, __file__, str(options.data_dir), "--rounds", str(options.rounds)]
                    command += ["--cache", cache, "--cell", variant, dataset, str(clients)]
                    result = subprocess.run(command, capture_output=True, text=True, check=False)
                    if result.returncode:
                        sys.exit(result.stderr)
                    row[variant] = json.loads(next(line for line in result.stdout.splitlines() if line.startswith("{")))
                table.append(row)
                cells = [f"{row[name]['seconds']:12.4f}" for name in options.variants]
                print(f"{dataset:8s}{clients:6d}{''.join(cells)}{around(row)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
