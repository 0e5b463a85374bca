"""``fedgraph-sim run``."""

import os
import time
from pathlib import Path

import click

from fedgraph_sim.cli.options import data_dir_option, run_options

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@click.command()
@run_options
@data_dir_option
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder of run folders.",
)
@click.option(
    "--store",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A partition that was made before, perhaps elsewhere: the folder that `fedgraph-sim partition` tells.",
)
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Go on with the unfinished run in this folder, from its latest checkpoint.",
)
@click.option("--address", metavar="A", help="Ray cluster to join: auto, HOST:PORT or ray://HOST:PORT.")
@click.option("--inline", is_flag=True, help="Run in this process, without Ray: for a debugger; equal results.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    file: Path | None,
    assignments: tuple[str, ...],
    data_dir: Path | None,
    out: Path,
    store: Path | None,
    resume: Path | None,
    address: str | None,
    name: str | None,
    force: bool,
    inline: bool,
    profile: bool,
    **flags: str | int | None,
) -> None:
    """Train a federated model as FILE (TOML) and the options say, and write a run folder.

    FILE may be recipe:NAME, a file of the package; see `fedgraph-sim recipes`. Without anything: FED-PUB on a graph
    that is generated on the spot, of communities that differ in what their features mean; METIS gives one to each of 10
    clients.

    --resume takes everything from the run's folder, but data, which --data-dir or --store name again. The results are
    those of a run that was never interrupted; with engine.batched on another number of CPUs up to rounding.

    At the end, runs in --out of other algorithms on the same data, split and rounds are shown beside it.

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

    from fedgraph_sim.cli.consoles import progress_console
    from fedgraph_sim.cli.progress import conclude, follow, only_results
    from fedgraph_sim.configuration import cache_folder, load_config
    from fedgraph_sim.engine.checks import check_resumes, check_run_name
    from fedgraph_sim.engine.files import CONFIG_FILE
    from fedgraph_sim.engine.launch import Folders, Run, prepare_run
    from fedgraph_sim.remote.client import RemoteRun, prepare_remote_run

    if resume is not None:
        check_resumes(resume, file=file, name=name, force=force, assignments=assignments, **flags)
        file, out, name = resume / CONFIG_FILE, resume.absolute().parent, resume.absolute().name
    config = load_config(file, flags, assignments)
    name = name or time.strftime(f"%Y%m%d-%H%M%S-{config.label}")
    check_run_name(name)
    folders = Folders(
        run=(out.expanduser() / name).absolute(),
        cache=cache_folder(),
        data=data_dir and data_dir.absolute(),
        store=store and store.absolute(),
    )
    address = address or os.environ.get("RAY_ADDRESS", "")
    what = "loading the data" if inline else "loading the data, starting Ray"
    with only_results():
        with progress_console().status(what):
            if address.startswith("ray://") and not inline and resume is None:
                prepared: Run | RemoteRun = prepare_remote_run(
                    config, folders, force=force, started=started, address=address
                )
            else:
                prepared = prepare_run(
                    config,
                    folders,
                    inline=inline,
                    started=started,
                    force=force,
                    resume=resume is not None,
                    address=address,
                )
        outcome = follow(prepared)
    conclude(outcome, prepared.job, profile=profile)
    if outcome.status == "failed":
        ctx.exit(1)
    if outcome.status == "interrupted":
        ctx.exit(INTERRUPTED)
