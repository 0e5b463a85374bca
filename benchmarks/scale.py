"""What more clients cost: start-up, time per round, memory of every process, and bytes.

Run: python benchmarks/scale.py DATA_DIR [--json FILE] [--dataset Cora] [--clients 10 50 100 ...] [--actors 2 ...]

Each cell is one run of FedAvg with the evaluation of all clients, in a process of its own; 0 actors is one actor per
client. Memory is the proportional set size (a shared page counts once in all), read when the last round is over.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

WARM_UP = 3


def measure(dataset: str, num_clients: int, num_actors: int, num_rounds: int, data_dir: Path, cache: Path) -> Any:
    """Run once, in this process, and return the figures."""
    import psutil

    from fedgraph_sim.configuration import load_config
    from fedgraph_sim.engine.launch import Folders, prepare_run
    from fedgraph_sim.engine.report import Outcome, RoundReport

    flags = {"algorithm": "fedavg", "dataset": dataset, "clients": num_clients, "rounds": num_rounds + WARM_UP}
    config = load_config(None, flags, [f"engine.clients_per_actor={-(-num_clients // (num_actors or num_clients))}"])
    reports, sizes = [], {}
    with tempfile.TemporaryDirectory() as folder:
        folders = Folders(run=Path(folder) / "run", cache=cache, data=data_dir)
        for event in prepare_run(config, folders, inline=False, started=time.time()).events():
            if isinstance(event, RoundReport):
                reports.append(event)
            elif isinstance(event, Outcome):  # all actors are still there
                assert event.status == "completed", event.error
                summary = event.summary
                sizes = memory(psutil.Process())
    rounds = reports[WARM_UP:]
    actors = sizes["HostActor"]
    return {
        "actors": len(actors),
        "startup": summary["seconds"]["startup"],
        "partition": summary["seconds"]["partition"],
        "round": median(report.seconds for report in rounds),
        "actor_bytes": int(median(actors)),
        "actors_bytes": sum(actors),
        "coordinator_bytes": sum(sizes["CoordinatorActor"]),
        "ray_bytes": sum(sizes["other"]),
        "bytes_per_round": rounds[0].bytes_up + rounds[0].bytes_down,
    }


def memory(process: Any) -> dict[str, list[int]]:
    """Return the bytes of the processes of this tree, by kind."""
    import psutil

    sizes: dict[str, list[int]] = {"HostActor": [], "CoordinatorActor": [], "other": []}
    for each in (process, *process.children(recursive=True)):
        try:
            title, size = " ".join(each.cmdline()), int(each.memory_full_info().pss)
        except psutil.Error:
            continue
        kind = next((kind for kind in ("HostActor", "CoordinatorActor") if kind in title), "other")
        sizes[kind].append(size)
    return sizes


def line(clients: int, cell: dict[str, Any]) -> str:
    """Return a row of the table."""
    per_client = cell["actors_bytes"] / clients
    return (
        f"{clients:7d} {cell['actors']:6d} {cell['startup']:8.1f} s {1000 * cell['round']:8.0f} ms "
        f"{1000 * cell['round'] / clients:8.2f} ms {cell['actor_bytes'] / 1e6:8.0f} MB {per_client / 1e6:8.1f} MB "
        f"{(cell['actors_bytes'] + cell['coordinator_bytes'] + cell['ray_bytes']) / 1e9:7.2f} GB "
        f"{cell['bytes_per_round'] / 1e6:9.1f} MB"
    )


def main() -> None:
    """Measure all cells, each in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", nargs="+", type=int, default=[10, 50, 100, 200, 300, 500])
    parser.add_argument("--actors", nargs="+", type=int, default=[2], help="0: one actor per client")
    parser.add_argument("--cell", nargs=2, type=int, metavar=("CLIENTS", "ACTORS"), help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        cell = measure(options.dataset, *options.cell, options.rounds, options.data_dir.absolute(), options.cache)
        print(json.dumps(cell))
        return
    print("clients actors  start-up       round  a client's     an actor   a client      in all  bytes a round")
    table = []
    with tempfile.TemporaryDirectory() as cache:
        for actors in options.actors:
            for clients in options.clients:
                command = [sys.executable, __file__, str(options.data_dir), "--rounds", str(options.rounds)]
                command += ["--dataset", options.dataset, "--cache", cache, "--cell", str(clients), str(actors)]
                result = subprocess.run(command, capture_output=True, text=True, check=False)
                if result.returncode:
                    sys.exit(result.stderr)
                cell = json.loads(next(line for line in result.stdout.splitlines() if line.startswith("{")))
                table.append({"dataset": options.dataset, "clients": clients, **cell})
                print(line(clients, cell), flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
