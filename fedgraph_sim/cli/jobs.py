"""``fedgraph-sim status``, ``logs``, ``stop`` and ``fetch``: runs that were submitted to a cluster."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedgraph_sim.cli.options import job_address_option
from fedgraph_sim.errors import ConfigError

if TYPE_CHECKING:
    from fedgraph_sim.remote.jobs import JobInfo, Jobs


@click.command()
@click.argument("run", required=False)
@job_address_option
def status(run: str | None, address: str) -> None:
    """List the runs that were submitted to a cluster, or show RUN."""
    from rich.table import Table

    from fedgraph_sim.cli.consoles import table_console
    from fedgraph_sim.remote.jobs import Jobs

    jobs = Jobs(address)
    console = table_console()
    if run is not None:
        console.print(_described(jobs.info(run)), soft_wrap=True)
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("run", "status", "started", "time"):
        table.add_column(heading, justify="left", no_wrap=True)
    for job in jobs.list():
        table.add_row(job.name, job.status.lower(), _moment(job), _duration(job))
    console.print(table)


@click.command()
@click.argument("run")
@job_address_option
@click.option("--follow", is_flag=True, help="Go on until the run has ended, and end with its exit code.")
@click.pass_context
def logs(ctx: click.Context, /, run: str, address: str, follow: bool) -> None:
    """Show what RUN has printed so far."""
    from fedgraph_sim.remote.jobs import Jobs

    jobs = Jobs(address)
    if follow:
        follow_job(ctx, jobs, run)
    else:
        click.echo(jobs.logs(run), nl=False)


@click.command()
@click.argument("run")
@job_address_option
def stop(run: str, address: str) -> None:
    """End RUN after the round under way, as Ctrl-C does; its results so far are kept."""
    from fedgraph_sim.remote.jobs import Jobs

    jobs = Jobs(address)
    if jobs.stop(run):
        click.echo(f"{run} ends after the round under way; its results so far are kept")
    else:
        click.echo(f"{run} was not running: {jobs.info(run).status.lower()}")


@click.command()
@click.argument("run")
@job_address_option
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder of run folders, here.",
)
@click.option("--force", is_flag=True, help="Replace a run folder that exists here.")
def fetch(run: str, address: str, out: Path, force: bool) -> None:
    """Bring the folder of RUN here, as it is now."""
    import shutil

    from fedgraph_sim.engine.checks import check_run_folder
    from fedgraph_sim.engine.writing import Writing
    from fedgraph_sim.remote.jobs import Jobs

    check_job_name(run)
    folder = (out / run).absolute()
    check_run_folder(folder, force=force)
    fetched = folder.with_name(f".{run}.fetched")
    shutil.rmtree(fetched, ignore_errors=True)
    Jobs(address).fetch(run, fetched)
    if folder.exists():
        Writing(folder).end()
    shutil.rmtree(folder, ignore_errors=True)
    fetched.rename(folder)
    click.echo(f"Results: {out / run}")


def follow_job(ctx: click.Context, jobs: "Jobs", run: str) -> None:
    """Show what `run` prints until it has ended, and end with its exit code."""
    try:
        job = jobs.follow(run, lambda lines: click.echo(lines, nl=False))
    except KeyboardInterrupt:
        click.echo(f"\n{run} goes on: fedgraph-sim logs {run} --follow, or fedgraph-sim stop {run}", err=True)
        raise
    if job.status != "SUCCEEDED":
        click.echo(f"{job.status.lower()}: {job.message}", err=True)
        ctx.exit(job.exit_code or 1)


def check_job_name(name: str) -> None:
    """Refuse a name that cannot be both a job's, which stands in addresses, and a folder's."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", name):
        raise ConfigError(f"--name {name[:100]!a} cannot be a job's name; use letters, digits, '-', '_' and '.'")


def _described(job: "JobInfo") -> str:
    lines = [
        f"{job.name}: {job.status.lower()}" + (f", exit code {job.exit_code}" if job.exit_code is not None else ""),
        f"started {_moment(job)}, {_duration(job)}; results on the head: {job.folder}",
    ]
    return "\n".join([*lines, job.message] if job.message else lines)


def _moment(job: "JobInfo") -> str:
    return job.started.isoformat(" ", "seconds") if job.started else "not yet"


def _duration(job: "JobInfo") -> str:
    return str(timedelta(seconds=round(job.seconds)))
