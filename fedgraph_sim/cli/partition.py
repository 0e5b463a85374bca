"""``fedgraph-sim partition``."""

from pathlib import Path

import click

from fedgraph_sim.cli.options import data_options


@click.command()
@data_options
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
    from rich.console import Console
    from rich.table import Table

    from fedgraph_sim.configuration import cache_folder, load_config
    from fedgraph_sim.engine.launch import Folders, load_partition

    config = load_config(file, flags, assignments)
    folders = Folders(run=Path().absolute(), cache=cache_folder(), data=data_dir and data_dir.absolute())
    store, reused = load_partition(config, folders)
    info = store.info

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("client", "nodes", "edges", "train", "val", "test", "classes", "isolated"):
        table.add_column(heading, justify="right")
    present = [sum(count > 0 for count in counts) for counts in info.class_counts]
    columns = (info.nodes, info.edges, info.train, info.val, info.test, present, info.isolated)
    for client, row in enumerate(zip(*columns, strict=True)):
        table.add_row(str(client), *map(str, row))
    console = Console(highlight=False)
    console.print(table)
    share = f" ({100 * info.edges_lost / info.num_edges:.1f} %)" if info.num_edges else ""
    console.print(
        f"{info.dataset}, {info.num_nodes} nodes, {info.num_edges} directed edges, {info.num_features} features, "
        f"{info.num_classes} classes; {info.num_clients} clients by {info.partition}\n"
        f"edges lost: {info.edges_lost}{share} ; largest over mean size: {info.size_balance:.3f} ; "
        f"label divergence: {info.label_divergence:.3f}",
        soft_wrap=True,
    )
    console.print(f"{'Reused' if reused else 'Written'}: {store.folder}", soft_wrap=True)
