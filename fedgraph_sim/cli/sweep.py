"""``fedgraph-sim sweep``."""

from pathlib import Path

import click

from fedgraph_sim.cli.options import data_dir_option, grid_options


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help="Folder of it all.  [default: runs/FILE]")
@grid_options
@data_dir_option
@click.pass_context
def sweep(
    ctx: click.Context,
    /,
    file: Path,
    out: Path | None,
    jobs: int | None,
    dry_run: bool,
    data_dir: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Run every combination of what the table [sweep] of FILE (TOML) lists, several at a time.

    The rest of FILE is that of `fedgraph-sim run`. Each run has its own folder below --out. A run with the same
    resolved configuration that is complete there is not run again: the same command goes on where it was interrupted,
    and a longer list adds to what is there. What fails is named at the end, and does not stop the others.

    \b
    Example, 2 x 3 x 5 runs:
      rounds = 50
      [dataset]
      name = "csbm"
      [sweep]
      seeds = 5                                # 0 to 4; or a list
      methods = ["local", "fedavg", "sharp"]   # algorithms, or tables as the last one
      [sweep.grid]
      clients = [5, 10]
      [sweep.method.sharp]
      algorithm = "fedpub"
      set = ["algorithm.tau=10"]

    Exit code: 0 after success, 1 if a run failed (the others go on), 2 for input that cannot be used, 130 after Ctrl-C.
    """  # noqa: D301
    from fedgraph_sim.cli.grid_progress import run_grid
    from fedgraph_sim.cli.grid_results import GridResults
    from fedgraph_sim.cli.sweep_file import load_cells
    from fedgraph_sim.engine.checks import check_grid_folder
    from fedgraph_sim.results.metrics import unit

    folder = (out or Path("runs") / file.stem).absolute()
    cells = load_cells(file, assignments)
    check_grid_folder(folder)
    metric = cells[0].config.algorithm.metric
    results = GridResults(cells, folder, title=f"Sweep {file.stem}", unit=unit(metric))
    ctx.exit(run_grid(results, data_dir, jobs=jobs, dry_run=dry_run))
