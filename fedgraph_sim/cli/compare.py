"""``fedgraph-sim compare``, ``table`` and ``report``: what finished and running runs have come to."""

from pathlib import Path

import click

from fedgraph_sim.cli.options import comma_separated

FORMATS = ("markdown", "latex", "csv")

runs_argument = click.argument(
    "runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
metric_option = click.option(
    "--metric", metavar="M", help="What is compared, such as loss.  [default: what the first run is judged by]"
)
format_option = click.option(
    "--format", "kind", type=click.Choice(FORMATS), default="markdown", show_default=True, help="How it is printed."
)


@click.command()
@runs_argument
@metric_option
@format_option
def compare(runs: tuple[Path, ...], metric: str | None, kind: str) -> None:
    """Show completed runs beside each other: one line per setting, over its seeds.

    RUN is a run's folder, or a folder of run folders. Runs that differ in nothing but their seed (and in where they
    were computed) are one setting. Where the settings have seeds in common and the data are the same, each is tested
    against the best.

    \b
    Examples:
      fedgraph-sim compare runs/first runs/second
      fedgraph-sim compare runs --format latex > comparison.tex
    """  # noqa: D301  # click's mark for a paragraph that is not wrapped
    from fedgraph_sim.results.comparison import compare as compare_runs
    from fedgraph_sim.results.run_folder import find_runs
    from fedgraph_sim.results.table_formats import FORMATS as RENDERERS

    click.echo(RENDERERS[kind](compare_runs(find_runs(runs), metric)))


@click.command()
@runs_argument
@click.option(
    "--rows", metavar="KEY,...", callback=comma_separated, default="algorithm", show_default=True, help="Keys."
)
@click.option(
    "--columns", metavar="KEY,...", callback=comma_separated, default="dataset,clients", show_default=True, help="Keys."
)
@metric_option
@format_option
def table(
    runs: tuple[Path, ...], rows: tuple[str, ...], columns: tuple[str, ...], metric: str | None, kind: str
) -> None:
    """Tabulate the test metric of completed runs by keys of their configuration: mean and deviation over seeds.

    RUN is a run's folder, or a folder of run folders. A key is written as in config.toml (`algorithm.lr`); `algorithm`,
    `dataset` and `partition` alone are their names. The best of each column is marked, and what is worse by more than
    chance.

    \b
    Examples:
      fedgraph-sim table runs
      fedgraph-sim table runs --rows algorithm,algorithm.lr --columns dataset --format latex
    """  # noqa: D301
    from fedgraph_sim.results.comparison import tabulate
    from fedgraph_sim.results.run_folder import find_runs
    from fedgraph_sim.results.table_formats import FORMATS as RENDERERS

    click.echo(RENDERERS[kind](tabulate(find_runs(runs), rows=rows, columns=columns, metric=metric)))


@click.command()
@runs_argument
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page.  [default: report.html, in the run's folder if it is one run]",
)
def report(runs: tuple[Path, ...], html: Path | None) -> None:
    """Write a page that shows runs, finished or under way: curves, clients, partition, similarities, time.

    The page needs no network and no other file. RUN is a run's folder, or a folder of run folders; of more than six
    runs the page shows the comparison without the details of each.

    \b
    Examples:
      fedgraph-sim report runs/first
      fedgraph-sim report runs/first runs/second --html both.html
    """  # noqa: D301
    import os

    from fedgraph_sim.results.page import write_report
    from fedgraph_sim.results.run_folder import find_runs

    found = find_runs(runs)
    file = html or (found[0].folder if len(found) == 1 else Path()) / "report.html"
    write_report(found, file)
    click.echo(f"Report: {os.path.relpath(file)}")
