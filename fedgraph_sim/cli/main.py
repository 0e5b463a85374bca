"""The command group. Commands import what they need when they run, so that ``--help`` answers at once."""

from importlib import import_module

import click

from fedgraph_sim import __version__
from fedgraph_sim.cli.options import check_values
from fedgraph_sim.errors import ConfigError, RunError

COMMANDS = {
    "run": "Train a federated model and write a run folder.",
    "partition": "Partition a graph, show what each client got, and keep it for later runs.",
    "sweep": "Run a grid of settings, methods and seeds, several at a time.",
    "report": "Write a page that shows runs: curves, clients, partition, similarities, time.",
    "compare": "Show runs beside each other, over their seeds, with a test of the differences.",
    "table": "Tabulate runs by keys of their configuration, for a paper: Markdown, LaTeX, CSV.",
    "reproduce": "Run a paper's experiments and show them beside its published figures.",
    "submit": "Start a run on a Ray cluster, through its head's dashboard.",
    "status": "List the runs on a cluster, or show one.",
    "logs": "Show what a run on a cluster has printed.",
    "stop": "End a run on a cluster after the round under way.",
    "fetch": "Bring the folder of a run on a cluster here.",
    "doctor": "Show what Ray and torch see, and how many clients would fit.",
    "recipes": "List the whole-run files that come with the package, or print one.",
    "algorithms": "List the algorithms, or show the parameters of one.",
    "datasets": "List the data sets, or show the options of one.",
    "partitioners": "List the partitioners, or show the options of one.",
    "keys": "List all other keys of a configuration.",
    "completion": "Print what makes a shell complete commands and options.",
}
_MODULES = dict.fromkeys(("recipes", "algorithms", "datasets", "partitioners", "keys"), "catalog")
_MODULES |= dict.fromkeys(("report", "compare", "table"), "compare")
_MODULES |= dict.fromkeys(("status", "logs", "stop", "fetch"), "jobs")


class BadInput(click.ClickException):
    """Input that cannot be used."""

    exit_code = 2


class FailedRun(click.ClickException):
    """A run that started and failed."""

    exit_code = 1


class Interrupted(click.ClickException):
    """A second Ctrl-C, or one before the first round."""

    exit_code = 130


class LazyGroup(click.Group):
    """Imports a command's module when the command is used, and turns the package's errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"fedgraph_sim.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and refuse options with an empty value."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            check_values(command, rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command: exit code 2 for input that cannot be used, 1 for a run that failed, 130 after Ctrl-C."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise BadInput(str(error)) from error
        except RunError as error:
            raise FailedRun(f"{error}\n{error.details}".strip()) from error
        except MemoryError as error:
            raise FailedRun(f"the memory does not suffice ({error}); take a smaller graph, model or batch") from error
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="fedgraph-sim")
def main() -> None:
    """Simulate federated graph learning: many clients, each with a part of a graph, and one server, on Ray."""
