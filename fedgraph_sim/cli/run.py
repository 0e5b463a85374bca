"""``fedgraph-sim run``."""

import time
from pathlib import Path

import click

from fedgraph_sim.cli.options import data_options

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@click.command()
@data_options
@click.option("--algorithm", metavar="A", help="Algorithm; see `fedgraph-sim algorithms`.  [default: fedpub]")
@click.option("--rounds", metavar="R", type=int, help="Number of rounds.  [default: 100]")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder of run folders.",
)
@click.option("--name", metavar="NAME", help="Name of the run's folder.  [default: time, algorithm and data set]")
@click.option("--force", is_flag=True, help="Replace a run folder that exists.")
@click.option("--inline", is_flag=True, help="Run in this process, without Ray: for a debugger; equal results.")
@click.option("--profile", is_flag=True, help="Show at the end where a round's time went.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    file: Path | None,
    assignments: tuple[str, ...],
    data_dir: Path | None,
    out: Path,
    name: str | None,
    force: bool,
    inline: bool,
    profile: bool,
    **flags: str | int | None,
) -> None:
    """Train a federated model as FILE (TOML) and the options say, and write a run folder.

    FILE may be recipe:NAME, a file of the package; see `fedgraph-sim recipes`. Without anything: FED-PUB on a graph
    that is generated on the spot, whose communities differ in what their features mean, one for each of 10 clients.

    At the end, other runs in --out that differ from it in the algorithm alone are shown beside it.

    The keys of FILE and of --set are listed by `fedgraph-sim algorithms NAME`, `datasets NAME`, `partitioners NAME` and
    `keys`, each with default, values, unit and meaning.

    \b
    Examples:
      fedgraph-sim run --algorithm fedavg --rounds 20 --name first
      fedgraph-sim run experiment.toml --set algorithm.lr=0.1 --seed 1
      fedgraph-sim run recipe:fedpub-cora-disjoint-10 --data-dir data

    Exit code: 0 after success, 1 after a failed run, 2 for input that cannot be used, 130 after Ctrl-C; the results so
    far are kept in each case.
    """  # noqa: D301  # click's mark for a paragraph that is not wrapped
    started = time.time()
    from rich.console import Console

    from fedgraph_sim.cli.progress import follow
    from fedgraph_sim.configuration import cache_folder, load_config
    from fedgraph_sim.engine.checks import check_run_name
    from fedgraph_sim.engine.launch import Folders, prepare_run

    config = load_config(file, flags, assignments)
    name = name or time.strftime(f"%Y%m%d-%H%M%S-{config.label}")
    check_run_name(name)
    folders = Folders(run=(out / name).absolute(), cache=cache_folder(), data=data_dir and data_dir.absolute())
    with Console(stderr=True).status("loading the data" if inline else "loading the data, starting Ray"):
        prepared = prepare_run(config, folders, inline=inline, force=force, started=started)
    outcome = follow(prepared, profile=profile)
    if outcome.status == "failed":
        ctx.exit(1)
    if outcome.status == "interrupted":
        ctx.exit(INTERRUPTED)
