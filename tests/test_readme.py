"""Everything that README.md tells the reader to type is typed here, in this order, in one folder."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedgraph_sim.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
STEPS = [
    (language, text)
    for language, block in BLOCKS
    for text in (block.splitlines() if language == "console" else [block])
    if language in ("console", "python", "toml")
]
SHORTER = ("--rounds", "2", "--inline")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize(("language", "text"), STEPS, ids=[text.splitlines()[0] for _, text in STEPS])
def test_step(language, text, folder, monkeypatch, request):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FEDGRAPH_CACHE", str(folder / "cache"))
    if language == "toml":
        (folder / text.split()[1]).write_text(text)
    elif language == "python":
        exec(compile(text, "README.md", "exec"), {})
    elif text.startswith("make "):
        subprocess.run([*shlex.split(text), "-n"], cwd=REPOSITORY, check=True, capture_output=True)
    else:
        program, command, *options = shlex.split(text)
        assert program == "fedgraph-sim"
        if "--data-dir" in options:
            options[options.index("--data-dir") + 1] = str(request.getfixturevalue("data_dir"))
        result = CliRunner().invoke(main, [command, *options, *(SHORTER if command == "run" else ())])
        assert result.exit_code == 0, result.output


def test_the_readme_has_steps():
    assert {language for language, _ in STEPS} == {"console", "python", "toml"}


def test_files_named_in_the_readme_exist():
    named = re.findall(r"`(fedgraph_sim/[\w/.]+)`", (REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert len(named) == 5
    assert all((REPOSITORY / name).is_file() for name in named)
