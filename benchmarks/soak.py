"""Does a long run grow? Memory of every process of it, by kind, over thousands of short rounds.

Run: python benchmarks/soak.py [--rounds 2000] [--clients 10] [--every 200]

Prints the resident memory of actors, coordinator, driver and Ray's own processes (whose largest holds the object store)
after the first rounds and then at intervals, and fails if the last is more than 5 % above the one after a tenth of the
run, or if a process is left behind at the end.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil


def memory(process: psutil.Process) -> dict[str, int]:
    """Return the resident bytes of the processes of this tree, by kind."""
    kinds = {"ray::HostActor": 0, "ray::Coordinator": 0, "raylet": 0, "driver": process.memory_info().rss, "other": 0}
    for each in process.children(recursive=True):
        try:
            title, size = " ".join(each.cmdline()), each.memory_info().rss
        except psutil.Error:
            continue
        kind = next((kind for kind in kinds if kind in title), "other")
        kinds[kind] += size
    return kinds


def run(rounds: int, clients: int, every: int) -> None:
    """Run in this process, and print the memory at intervals."""
    from fedgraph_sim.configuration import load_config
    from fedgraph_sim.engine.launch import Folders, prepare_run
    from fedgraph_sim.engine.report import Outcome, RoundReport

    options = ("dataset.num_nodes=1000", "algorithm.hidden=16", "engine.checkpoint_every=100")
    config = load_config(None, {"rounds": rounds, "clients": clients}, options)
    samples: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        folders = Folders(run=Path(folder) / "run", cache=Path(folder) / "cache", data=None)
        for event in prepare_run(config, folders, inline=False, started=time.time()).events():
            if isinstance(event, RoundReport) and event.round % every == 0:
                samples.append(memory(psutil.Process()))
                sizes = "  ".join(f"{kind} {size / 1e6:.1f}" for kind, size in samples[-1].items())
                print(f"round {event.round}: MB: {sizes}", flush=True)
            elif isinstance(event, Outcome):
                assert event.status == "completed", event.error
    warm = samples[max(0, rounds // every // 10 - 1)]
    grown = {kind: size / warm[kind] - 1 for kind, size in samples[-1].items() if warm[kind]}
    print("grown:", ", ".join(f"{kind} {100 * share:+.1f} %" for kind, share in grown.items()))
    if max(grown.values()) > 0.05:
        sys.exit("memory is not level")


def main() -> None:
    """Run in a child, and look for what it leaves behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--every", type=int, default=200)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run(options.rounds, options.clients, options.every)
        return
    child = psutil.Popen([sys.executable, __file__, *sys.argv[1:], "--child"])
    seen: set[psutil.Process] = set()
    while child.poll() is None:
        seen |= set(child.children(recursive=True))
        time.sleep(1)
    _, left = psutil.wait_procs(seen, timeout=30)
    print(f"processes left behind: {len(left)}")
    if left or child.returncode:
        sys.exit(1)


if __name__ == "__main__":
    main()
