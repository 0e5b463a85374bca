"""Whole-run files that come with the package: one folder per paper, one TOML file per recipe, its name the file's.

Beside the recipes of a paper, ``paper.toml`` holds what `fedgraph-sim reproduce` needs: the grid and the published
figures. A first line of comment says what a recipe is.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
PAPER_FILE = "paper.toml"


def recipes() -> dict[str, Path]:
    """Return the files of all recipes by name, those of a paper together."""
    files = sorted(FOLDER.glob("*/*.toml"), key=lambda path: (path.parent.name, _natural(path.stem)))
    return {path.stem: path for path in files if path.name != PAPER_FILE}


def papers() -> dict[str, Path]:
    """Return the ``paper.toml`` of all papers that can be reproduced, by the name of their folder."""
    return {path.parent.name: path for path in sorted(FOLDER.glob(f"*/{PAPER_FILE}"))}


def summary(recipe: Path) -> str:
    """Return the first line of a recipe, which says what it is."""
    with recipe.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts 5 before 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in name.split("-")]
