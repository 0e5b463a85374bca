"""``fedgraph-sim reproduce``."""

from collections.abc import Sequence
from pathlib import Path

import click

from fedgraph_sim.cli.options import comma_separated, data_dir_option, grid_options, paper_names


@click.command()
@click.argument("paper", shell_complete=paper_names)
@click.option("--dataset", metavar="D,...", callback=comma_separated, help="Data sets.  [default: all of the paper]")
@click.option("--clients", metavar="N,...", callback=comma_separated, help="Numbers of clients.  [default: all]")
@click.option("--partition", metavar="P,...", callback=comma_separated, help="Partitioners.  [default: the paper's]")
@click.option("--methods", metavar="M,...", callback=comma_separated, help="Methods.  [default: the paper's]")
@click.option(
    "--seeds", metavar="S", type=click.IntRange(min=1), default=3, show_default=True, help="Seeds 0 to S - 1."
)
@click.option("--rounds", metavar="R", type=int, help="Rounds of every run.  [default: the recipe's]")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Folder of it all.  [default: runs/PAPER]")
@grid_options
@data_dir_option
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

    \b
    Examples:
      fedgraph-sim reproduce fedpub --dry-run
      fedgraph-sim reproduce fedpub --dataset cora --clients 10 --methods local,fedpub --data-dir data

    Exit code: 0 after success, 1 if a run failed (the others go on), 2 for input that cannot be used, 130 after Ctrl-C.
    """  # noqa: D301
    from fedgraph_sim.cli.grid_progress import run_grid
    from fedgraph_sim.cli.paper import Choice, load_paper
    from fedgraph_sim.cli.paper_results import PaperResults
    from fedgraph_sim.engine.checks import check_grid_folder

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
    check_grid_folder(folder)
    ctx.exit(run_grid(PaperResults(sheet, choice, folder), data_dir, jobs=jobs, dry_run=dry_run))
