"""Whole-run files that come with the package: one folder per paper, one TOML file per recipe, its name the file's.

The first line of a recipe says what it is. Beside a paper's recipes, ``paper.toml`` holds its title and what
`fedgraph-sim reproduce` needs: which recipes and methods make the grid, and the published figures.
"""

import tomllib
from pathlib import Path

from fedgraph_sim.names import find

FOLDER = Path(__file__).parent
PAPER_FILE = "paper.toml"
PREFIX = "recipe:"
"""What a user writes before a recipe's name in place of a file."""


def all_recipes() -> dict[str, Path]:
    """Return the files of all recipes by name, those of a paper together."""
    files = (path for path in FOLDER.glob("*/*.toml") if path.name != PAPER_FILE)
    return {path.stem: path for path in sorted(files, key=_paper_and_number)}


def recipe(name: str) -> Path:
    """Return the file of a recipe. Raises `ConfigError` with the nearest name for one that is not there."""
    files = all_recipes()
    return files[find("recipe", name, files)]


def file_of(name: str | Path) -> Path:
    """Return the file that a user names: a recipe's for ``recipe:NAME``, else the path itself."""
    text = str(name)
    return recipe(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(name)


def summary(file: Path) -> str:
    """Return the first line of a recipe, which says what it is."""
    with file.open(encoding="utf-8") as lines:
        return lines.readline().lstrip("# ").strip()


def all_papers() -> dict[str, Path]:
    """Return every ``paper.toml`` by the name of its folder."""
    return {path.parent.name: path for path in sorted(FOLDER.glob(f"*/{PAPER_FILE}"))}


def title(folder: Path) -> str:
    """Return the title of the paper whose recipes lie in `folder`."""
    return str(tomllib.loads((folder / PAPER_FILE).read_text(encoding="utf-8"))["title"])


def _paper_and_number(file: Path) -> tuple[str, list[tuple[int, str]]]:
    """Return a sort key that puts 5 before 10."""
    return file.parent.name, [(int(part), "") if part.isdigit() else (0, part) for part in file.stem.split("-")]
