"""``fedgraph-sim partition``."""

from pathlib import Path

import click

from fedgraph_sim.cli.options import data_dir_option, data_options


@click.command()
@data_options
@data_dir_option
def partition(
    file: Path | None, assignments: tuple[str, ...], data_dir: Path | None, **flags: str | int | None
) -> None:
    """Partition a graph as `run` would with the same FILE and options, and show what each client got.

    The partition is kept, and a later run with the same data set, partition and seed uses it. "lost" edges are those
    between clients, which no client sees; an "isolated" node has no neighbour left; label divergence is the mean
    Jensen-Shannon divergence between two clients' label distributions, from 0 (equal) to 1 (no label in common).

    \b
    Examples:
      fedgraph-sim partition --clients 20
      fedgraph-sim partition --dataset Cora --partition louvain --data-dir data
    """  # noqa: D301
    from rich import box
    from rich.table import Table

    from fedgraph_sim.cli.consoles import results_console
    from fedgraph_sim.configuration import cache_folder, load_config
    from fedgraph_sim.engine.launch import Folders, load_partition

    config = load_config(file, flags, assignments)
    folders = Folders(run=Path().absolute(), cache=cache_folder(), data=data_dir and data_dir.absolute())
    store, reused = load_partition(config, folders)
    info = store.info

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("client", *info.columns):
        table.add_column(heading, justify="right")
    for client, row in enumerate(zip(*info.columns.values(), strict=True)):
        table.add_row(str(client), *map(str, row))
    console = results_console()
    console.print(table)
    for line in info.notes:
        console.print(line, soft_wrap=True)
    console.print(f"{'Reused' if reused else 'Written'}: {store.folder}", soft_wrap=True)
