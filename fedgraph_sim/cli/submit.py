"""``fedgraph-sim submit``."""

import time
from pathlib import Path

import click

from fedgraph_sim.cli.options import job_address_option, run_options


@click.command()
@run_options
@click.option(
    "--out",
    metavar="DIR",
    default="~/fedgraph-sim-runs",
    show_default=True,
    help="Folder of run folders, on the head.",
)
@click.option("--data-dir", metavar="DIR", help="Folder with raw data sets on the cluster; with --upload-data: here.")
@click.option("--upload-data", is_flag=True, help="Make the partition here, and send it along.")
@job_address_option
@click.option("--follow", is_flag=True, help="Show what the run prints until it has ended, and end with its exit code.")
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    file: Path | None,
    assignments: tuple[str, ...],
    out: str,
    name: str | None,
    force: bool,
    profile: bool,
    data_dir: str | None,
    upload_data: bool,
    address: str,
    follow: bool,
    **flags: str | int | None,
) -> None:
    """Start on a Ray cluster what `run` would start here with the same FILE and options.

    The package as it is installed here and the resolved configuration travel to the head; what the package needs must
    be installed there (cluster.yaml does so). Data are read on the cluster, or partitioned here and sent along with
    --upload-data. A token is looked for where Ray looks for it.
    """
    from fedgraph_sim.cli.jobs import check_job_name, follow_job
    from fedgraph_sim.cli.progress import human_bytes
    from fedgraph_sim.configuration import cache_folder, load_config
    from fedgraph_sim.engine.checks import check_kind, check_protocol
    from fedgraph_sim.engine.files import CONFIG_FILE
    from fedgraph_sim.engine.launch import Folders, as_run, load_partition
    from fedgraph_sim.remote.bundle import STORE, bundle, upload_size
    from fedgraph_sim.remote.jobs import Jobs

    config = load_config(file, flags, assignments)
    check_kind(config)
    check_protocol(config)
    config = as_run(config)
    name = name or time.strftime(f"%Y%m%d-%H%M%S-{config.label}")
    check_job_name(name)
    jobs = Jobs(address)
    arguments = ["run", CONFIG_FILE, "--name", name, "--out", out]
    arguments += [flag for flag, wanted in (("--force", force), ("--profile", profile)) if wanted]
    store = None
    if upload_data:
        local = Path(data_dir).absolute() if data_dir else None
        store, _ = load_partition(config, Folders(run=Path(), cache=cache_folder(), data=local))
        click.echo(f"uploading the partition, {human_bytes(upload_size(store))}", err=True)
        arguments += ["--store", STORE]
    elif data_dir:
        arguments += ["--data-dir", data_dir]
    with bundle(config, store) as working_dir:
        jobs.submit(name, working_dir, arguments, folder=f"{out}/{name}")
    click.echo(f"Submitted: {name}\nResults:   {out}/{name} on the head", err=follow)
    if follow:
        follow_job(ctx, jobs, name)
    else:
        click.echo(f"Then: fedgraph-sim status | logs {name} --follow | stop {name} | fetch {name}")
