"""Everything that README.md and docs/ tell the reader to type is typed here, in this order, in one folder per file."""

import re
import shlex
import subprocess
from glob import glob
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedgraph_sim.algorithms.node_classifier import NodeClassifier
from fedgraph_sim.algorithms.registry import ALGORITHMS
from fedgraph_sim.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
LANGUAGES = ("console", "python", "toml")
SHORTER = {"run": ("--rounds", "2", "--inline")}
PAGES = {name: REPOSITORY / "docs" / "algorithms" / f"{name}.md" for name in ALGORITHMS}


def steps(document):
    """Yield language and text: each line of a console block, and each other block as a whole."""
    text = document.read_text(encoding="utf-8")
    for language, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL):
        if language in LANGUAGES:
            yield from ((language, part) for part in (block.splitlines() if language == "console" else [block]))


STEPS = [
    pytest.param(document, language, text, id=f"{document.stem}-{text.splitlines()[0]}")
    for document in DOCUMENTS
    for language, text in steps(document)
]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    folders = {}
    return lambda document: folders.setdefault(document, tmp_path_factory.mktemp(document.stem))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(("document", "language", "text"), STEPS)
def test_step(document, language, text, folder_of, cache, monkeypatch, request):
    folder = folder_of(document)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("FEDGRAPH_CACHE", str(cache))
    named = re.match(r"# ([\w-]+\.(?:toml|py))\n", text)
    if named:
        (folder / named[1]).write_text(text)
    elif language == "python":
        exec(compile(text, document.name, "exec"), {})
    elif text.startswith("make "):
        subprocess.run([*shlex.split(text), "-n"], cwd=REPOSITORY, check=True, capture_output=True)
    else:
        program, command, *options = shlex.split(text)
        assert program == "fedgraph-sim"
        options = [found for option in options for found in (sorted(glob(option)) if "*" in option else [option])]
        if "--data-dir" in options:
            options[options.index("--data-dir") + 1] = str(request.getfixturevalue("data_dir"))
        if command == "reproduce" and "--rounds" not in options:
            options.append("--dry-run")  # a paper's whole grid takes hours
        result = CliRunner().invoke(main, [command, *options, *SHORTER.get(command, ())])
        assert result.exit_code == 0, result.output


def test_the_readme_has_steps_of_each_language():
    assert {language for language, _ in steps(REPOSITORY / "README.md")} == set(LANGUAGES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.stem)
def test_files_that_a_document_names_exist(document):
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []
    named = re.findall(r"`(fedgraph_sim/[\w/.]+)`", text)
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.exists()])
def test_the_page_of_an_algorithm_names_every_parameter_of_its_own(name):
    text = PAGES[name].read_text(encoding="utf-8")
    inherited = ALGORITHMS[name].__base__.model_fields
    assert [key for key in ALGORITHMS[name].model_fields if key not in inherited and f"`{key}`" not in text] == []
    assert f"`{name}`" in text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_on_a_page(name):
    pages = (REPOSITORY / "docs" / "algorithms").glob("[!R]*.md")
    assert any(f"`{name}`" in page.read_text(encoding="utf-8") for page in pages)


def test_the_page_on_what_algorithms_share_names_every_parameter():
    text = (REPOSITORY / "docs" / "algorithms" / "README.md").read_text(encoding="utf-8")
    assert [key for key in NodeClassifier.model_fields if key != "name" and f"| `{key}` |" not in text] == []


def test_the_package_has_no_longer_example_of_an_algorithm_than_thirty_lines():
    (example,) = (text for _, text in steps(REPOSITORY / "docs" / "extending.md") if text.startswith("# robust.py"))
    assert len([line for line in example.splitlines()[1:] if line.strip()]) < 30
