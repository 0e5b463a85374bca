"""``fedgraph-sim doctor``."""

from typing import TYPE_CHECKING

import click

from fedgraph_sim.cli.options import config_keys

if TYPE_CHECKING:
    from rich.table import Table

    from fedgraph_sim.engine.machines import Machine

GIB = 2**30


@click.command()
@click.option("--address", metavar="A", help="Ray cluster to look at: auto, HOST:PORT or ray://HOST:PORT.")
@click.option("--clients", metavar="N", type=click.IntRange(min=1), default=10, show_default=True, help="To place.")
@click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=config_keys,
    help="Set a key of [engine].",
)
def doctor(address: str | None, clients: int, assignments: tuple[str, ...]) -> None:
    """Show what Ray and torch see on each machine, and how many clients would fit there.

    Without --address and RAY_ADDRESS that is this machine alone. Exit code 2 where clients cannot be placed.
    """
    from fedgraph_sim.cli.consoles import progress_console, table_console
    from fedgraph_sim.configuration import load_config
    from fedgraph_sim.counts import counted
    from fedgraph_sim.engine.cluster import connect
    from fedgraph_sim.engine.placement import capacity, place

    engine = load_config(None, {}, assignments).engine
    with progress_console().status("starting Ray" if address is None else "asking the cluster"):
        nodes = connect(address)
        from fedgraph_sim.engine.machines import machines, this_process  # imports Ray, which `connect` prepares

        found = machines(nodes)
    console = table_console()
    console.print(_table(found))
    here = this_process()
    for machine in found:
        if machine.process and (differing := machine.process.differences(here)):
            console.print(f"not as here on {machine.node.host}: {differing}", soft_wrap=True)
    count, scarce = capacity(engine, nodes)
    console.print(f"{counted(count, 'actor')} of one client fit{'s' * (count == 1)}, limited by {scarce}")
    console.print(f"{counted(clients, 'client')} of equal size: {place([1] * clients, engine, nodes).describe()}")


def _table(found: "list[Machine]") -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("machine", "CPUs", "GPUs", "memory", "object store", "torch sees", "versions"):
        table.add_column(heading)
    for machine in found:
        node, process = machine.node, machine.process
        table.add_row(
            node.host,
            f"{node.cpus:g}",
            f"{node.gpus:g}",
            f"{node.memory / GIB:.1f} GiB",
            f"{node.object_store / GIB:.1f} GiB",
            ", ".join(process.devices) if process else "(no answer)",
            ", ".join(f"{name} {version}" for name, version in process.versions.items()) if process else machine.error,
        )
    return table
