"""``fedgraph-sim reproduce``."""

from collections.abc import Sequence
from pathlib import Path

import click

from fedgraph_sim.cli.options import comma_separated, data_dir_option
from fedgraph_sim.cli.run import INTERRUPTED


@click.command()
@click.argument("paper")
@click.option("--dataset", metavar="D,...", callback=comma_separated, help="Data sets.  [default: all of the paper]")
@click.option("--clients", metavar="N,...", callback=comma_separated, help="Numbers of clients.  [default: all]")
@click.option("--partition", metavar="P,...", callback=comma_separated, help="Partitioners.  [default: the paper's]")
@click.option("--methods", metavar="M,...", callback=comma_separated, help="Methods.  [default: the paper's]")
@click.option(
    "--seeds", metavar="S", type=click.IntRange(min=1), default=3, show_default=True, help="Seeds 0 to S - 1."
)
@click.option("--rounds", metavar="R", type=int, help="Rounds of every run.  [default: the recipe's]")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Folder of it all.  [default: runs/PAPER]")
@click.option(
    "--jobs",
    metavar="J",
    type=click.IntRange(min=1),
    help="Runs at a time, each in its own process; 1: in this one, without Ray.  [default: by CPUs and memory]",
)
@click.option("--dry-run", is_flag=True, help="Show the runs, and which are done; start nothing.")
@data_dir_option
@click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set any key in every run; data_seed=0 holds split and partition fixed while the seeds vary.",
)
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    paper: str,
    out: Path | None,
    jobs: int | None,
    dry_run: bool,
    data_dir: Path | None,
    dataset: Sequence[str] | None,
    clients: Sequence[str] | None,
    partition: Sequence[str] | None,
    methods: Sequence[str] | None,
    seeds: int,
    rounds: int | None,
    assignments: Sequence[str],
) -> None:
    """Run the experiments of PAPER: every recipe with every method and seed, and print them beside what was published.

    Each run has its own folder below --out. A run with the same resolved configuration that is complete there is not
    run again, so the same command goes on where it was interrupted, and another choice adds to what is there.

    Exit code: 0 after success, 1 if a run failed (the others go on), 2 for input that cannot be used, 130 after Ctrl-C.
    """
    from fedgraph_sim.cli.grid import Choice, load_paper
    from fedgraph_sim.cli.grid_progress import print_cells, print_results, run_missing
    from fedgraph_sim.cli.grid_results import GridResults
    from fedgraph_sim.configuration import cache_folder
    from fedgraph_sim.engine.checks import check_writable
    from fedgraph_sim.engine.launch import Folders

    sheet = load_paper(paper)
    choice = Choice(
        dataset=dataset,
        clients=clients,
        partition=partition,
        methods=methods,
        seeds=seeds,
        rounds=rounds,
        assignments=assignments,
    )
    folder = (out or Path("runs") / paper.lower()).absolute()
    check_writable(folder)
    results = GridResults(sheet, choice, folder)
    if dry_run:
        print_cells(results)
        return
    folders = Folders(run=folder, cache=cache_folder(), data=data_dir and data_dir.absolute())
    ending = run_missing(results, folders, jobs)
    print_results(results, ending)
    if ending.failed:
        ctx.exit(1)
    if ending.interrupted:
        ctx.exit(INTERRUPTED)
