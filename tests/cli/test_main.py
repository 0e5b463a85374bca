import re
import subprocess
import sys

import click
import pytest

from fedgraph_sim import __version__
from fedgraph_sim.cli.main import COMMANDS, main

DATA_FLAGS = {"--dataset", "--clients", "--partition", "--seed", "--data-dir", "--set"}
RUN_FLAGS = DATA_FLAGS | {"--algorithm", "--rounds", "--name", "--out", "--force", "--profile", "--address"}
FLAGS = {
    "run": RUN_FLAGS | {"--store", "--resume", "--inline"},
    "partition": DATA_FLAGS,
    "reproduce": {
        *("--dataset", "--clients", "--partition", "--methods", "--seeds", "--rounds", "--out", "--jobs", "--dry-run"),
        *("--data-dir", "--set"),
    },
    "submit": RUN_FLAGS | {"--upload-data", "--follow"},
    "status": {"--address"},
    "logs": {"--address", "--follow"},
    "stop": {"--address"},
    "fetch": {"--address", "--out", "--force"},
    "doctor": {"--address", "--clients", "--set"},
    "sweep": {"--out", "--jobs", "--dry-run", "--data-dir", "--set"},
    "report": {"--html"},
    "compare": {"--metric", "--format"},
    "table": {"--rows", "--columns", "--metric", "--format"},
    "recipes": set(),
    "algorithms": set(),
    "datasets": set(),
    "partitioners": set(),
    "keys": set(),
    "completion": set(),
}


def test_flags_are_frozen():
    """A flag that goes or comes changes what users have in their scripts."""
    found = {}
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        found[name] = {flag for option in options for flag in option.opts}
    assert found == FLAGS


def test_importing_the_command_line_is_light():
    code = "import sys, fedgraph_sim.cli.main; print({'torch', 'ray', 'pydantic', 'numpy', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_help_lists_every_command(invoke):
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.output for name in COMMANDS)
    assert invoke("-h").output == result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(invoke, command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {command}")


def test_version(invoke):
    assert invoke("--version").output == f"fedgraph-sim, version {__version__}\n"


def test_unknown_command(invoke):
    result = invoke("train")
    assert result.exit_code == 2
    assert "No such command 'train'" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_the_shell_loads(invoke, shell):
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert f"_FEDGRAPH_SIM_COMPLETE={shell}_complete" in result.output


def test_commands_options_and_names_complete(monkeypatch):
    def completed(*words):
        environment = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        environment |= {"_FEDGRAPH_SIM_COMPLETE": "bash_complete"}
        code = "from fedgraph_sim.cli.main import main; main(prog_name='fedgraph-sim')"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    assert completed("fedgraph-sim", "re") == {"report", "reproduce", "recipes"}
    assert completed("fedgraph-sim", "table", "--ro") == {"--rows"}
    assert completed("fedgraph-sim", "run", "--algorithm", "fedp") == {"fedprox", "fedpub", "fedper"}
    assert completed("fedgraph-sim", "run", "--partition", "lo") == {"louvain"}
    assert completed("fedgraph-sim", "datasets", "Ci") == {"CiteSeer"}
    assert completed("fedgraph-sim", "reproduce", "cn") == {"cnfgnn"}
    assert completed("fedgraph-sim", "recipes", "gfl-appnp-co") == {"gfl-appnp-cora-2708"}
    appnp = {"recipe:gfl-appnp-cora-2708"}
    assert completed("fedgraph-sim", "run", "recipe:gfl-appnp-co") == appnp | {"recipe:gfl-appnp-co"}  # or a file
    assert completed("fedgraph-sim", "run", "--set", "algorithm.ta") == {"algorithm.task=", "algorithm.tau="}
    gcfl = {"algorithm.eps1=", "algorithm.eps2="}
    assert completed("fedgraph-sim", "run", "--algorithm", "gcfl", "--set", "algorithm.e") == gcfl
    assert completed("fedgraph-sim", "run", "--algorithm", "cnfgnn", "--set", "split.st") == {"split.stride="}
    assert completed("fedgraph-sim", "sweep", "--set", "se") == {"seed="}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("algorithms", "datasets", "keys")])
def test_every_command_explains_itself(invoke, name):
    for flag in ("-h", "--help"):
        result = invoke(name, flag)
        assert result.exit_code == 0
        assert result.output.startswith("Usage:")


@pytest.mark.parametrize("name", ["run", "partition", "sweep", "report", "compare", "table", "reproduce", "recipes"])
def test_help_shows_an_example(invoke, name):
    assert re.search(rf"Examples?.*\n\s+(fedgraph-sim {name}|rounds = )", invoke(name, "--help").output)


def test_piped_output_has_no_colours(invoke):
    assert "\x1b" not in invoke("algorithms").output


def test_the_package_imports_nothing_heavy_before_it_is_used():
    code = "import sys, fedgraph_sim; from fedgraph_sim import load_run; print({'torch', 'ray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--name", ""], "--name '' is empty; give a value, or leave --name out"),
        (["run", "--name="], "--name '' is empty"),
        (["run", "--inline", "--address", " "], "--address ' ' is empty"),
        (["run", "--set", ""], "--set '' is empty"),
        (["reproduce", "fedpub", "--dry-run", "--methods", ""], "--methods '' is empty"),
        (["reproduce", "fedpub", "--dry-run", "--methods", ",,"], "--methods ',,' is empty"),
        (["reproduce", "fedpub", "--dry-run", "--out", ""], "--out '' is empty"),
        (["status", "--address", ""], "--address '' is empty"),
        (["table", ".", "--rows", ","], "--rows ',' is empty"),
    ],
)
def test_an_empty_value_is_not_taken_for_none(invoke, arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {message}")
