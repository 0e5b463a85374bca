"""Options that several commands share."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from fedgraph_sim.errors import ConfigError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class RunFile(click.Path):
    """A TOML file of the user, or ``recipe:NAME``, a file of the package."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the file's path."""
        from fedgraph_sim.recipes import PREFIX, file_of

        if isinstance(value, str) and value.startswith(PREFIX):
            return file_of(value)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the recipes that begin so, and let the shell add its files."""
        from fedgraph_sim.recipes import PREFIX, all_recipes

        recipes = [f"{PREFIX}{name}" for name in all_recipes()]
        found = [CompletionItem(name) for name in recipes if name.startswith(incomplete)]
        return found + super().shell_complete(ctx, param, incomplete)


def comma_separated(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Return the parts of a comma-separated value, at least one; a callback of options."""
    if value is None:
        return None
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if not parts:
        refuse_empty(parameter.opts[0], value)
    return parts


def check_values(command: click.Command, arguments: list[str]) -> None:
    """Refuse options with an empty value, as a script's unset variable gives one, which would count as not given."""
    flags = {
        flag
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.is_flag
        for flag in parameter.opts
    }
    for argument, following in zip(arguments, [*arguments[1:], None], strict=False):
        flag, equals, value = argument.partition("=")
        given = value if equals else following
        if flag in flags and given is not None and not given.strip():
            refuse_empty(flag, given)


def refuse_empty(flag: str, value: str) -> NoReturn:
    """Say that an option's value is none."""
    raise ConfigError(f"{flag} {value!r} is empty; give a value, or leave {flag} out")


def completes(module: str, names: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes one of `names` of a module of the package, or the last of several with commas between."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        found = getattr(import_module(f"fedgraph_sim.{module}"), names)
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + name for name in (found() if callable(found) else found) if name.startswith(last)]

    return complete


def config_keys(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys that complete that of --set, given the names that stand before it."""
    from fedgraph_sim.configuration import known_keys

    try:
        keys = known_keys({name: value for name, value in ctx.params.items() if isinstance(value, str)})
    except ConfigError:
        keys = known_keys({})
    return [f"{key}=" for key in keys if key.startswith(incomplete)]


algorithm_names = completes("algorithms.registry", "ALGORITHMS")
dataset_names = completes("datasets.registry", "DATASETS")
partitioner_names = completes("datasets.registry", "PARTITIONERS")
recipe_names = completes("recipes", "all_recipes")
paper_names = completes("recipes", "all_papers")

data_dir_option: Decorator = click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="FEDGRAPH_DATA",
    show_envvar=True,
    help="Folder with raw data sets that are already there.",
)

_WHAT: list[Decorator] = [
    click.argument("file", required=False, type=RunFile()),
    click.option(
        "--dataset",
        metavar="D",
        shell_complete=dataset_names,
        help="Data set; see `fedgraph-sim datasets`.  [default: csbm]",
    ),
    click.option("--clients", metavar="N", type=int, help="Number of clients.  [default: 10]"),
    click.option(
        "--partition",
        metavar="P",
        shell_complete=partitioner_names,
        help="Partitioner; see `fedgraph-sim partitioners`.  [default: metis]",
    ),
    click.option("--seed", metavar="S", type=int, help="Seed of split, weights and all draws.  [default: 0]"),
    click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        shell_complete=config_keys,
        multiple=True,
        help="Set any key of the configuration, such as algorithm.lr=0.1; repeatable, and wins over FILE and flags.",
    ),
]


_HOW: list[Decorator] = [
    click.option(
        "--algorithm",
        metavar="A",
        shell_complete=algorithm_names,
        help="Algorithm; see `fedgraph-sim algorithms`.  [default: fedpub]",
    ),
    click.option("--rounds", metavar="R", type=int, help="Number of rounds.  [default: 100]"),
    click.option("--name", metavar="NAME", help="Name of the run's folder.  [default: time, algorithm and data set]"),
    click.option("--force", is_flag=True, help="Replace a run folder that exists."),
    click.option("--profile", is_flag=True, help="Show at the end where a round's time went."),
]

job_address_option: Decorator = click.option(
    "--address",
    metavar="URL",
    envvar="RAY_API_SERVER_ADDRESS",
    show_envvar=True,
    default="http://127.0.0.1:8265",
    show_default=True,
    help="Dashboard of the cluster's head.",
)
_GRID: list[Decorator] = [
    click.option(
        "--jobs",
        metavar="J",
        type=click.IntRange(min=1),
        help="Runs at a time, each in its own process; 1: in this one, without Ray.  [default: by CPUs and memory]",
    ),
    click.option("--dry-run", is_flag=True, help="Show the runs, and which are done; start nothing."),
    click.option(
        "--set",
        "assignments",
        metavar="KEY=VALUE",
        shell_complete=config_keys,
        multiple=True,
        help="Set any key in every run; data_seed=0 holds split and partition fixed while the seeds vary.",
    ),
]


def grid_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what decides how a grid runs: --jobs, --dry-run, --set."""
    for option in reversed(_GRID):
        command = option(command)
    return command


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what decides the clients' data: FILE, --dataset, --clients, --partition, --seed, --set."""
    return _with(_WHAT, command)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add those and what else decides a run: --algorithm, --rounds, --name, --force, --profile."""
    return _with(_WHAT + _HOW, command)


def _with(options: list[Decorator], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
