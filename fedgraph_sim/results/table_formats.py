"""A result table as Markdown, LaTeX (with the package booktabs) or CSV."""

import csv
import io
from collections.abc import Callable

from fedgraph_sim.results.comparison import Cell, ResultTable
from fedgraph_sim.results.metrics import is_share, scaled
from fedgraph_sim.results.scores import Score


def markdown(table: ResultTable) -> str:
    """Return a Markdown table, padded so that it reads well as it is, and its notes."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in text_of(table, "**{}**", "±", "†")]
    head = [name.replace("|", "\\|") for name in table.head]
    widths = [max(3, *(len(row[column]) for row in (head, *cells))) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in (head, rule, *cells)
    ]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes)])


def latex(table: ResultTable) -> str:
    """Return a LaTeX tabular, its notes as comments."""
    rows = text_of(table, r"\textbf{{{}}}", r"$\pm$", r"$^\dagger$", escape=_escaped)
    columns = "l" * table.num_keys + "r" * (len(table.head) - table.num_keys)
    lines = [r"% needs \usepackage{booktabs}", *(f"% {note}" for note in table.notes)]
    lines += [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(_escaped, table.head)) + r" \\",
        r"\midrule",
    ]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def comma_separated(table: ResultTable) -> str:
    """Return one line per score: the row's keys, the column, mean, std, number of seeds, p, whether it is the best."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = table.head[: table.num_keys]
    writer.writerow([*keys, "column", "mean", "std", "seeds", "p", "best"])
    for row in table.rows:
        for name, cell in zip(table.head, row, strict=True):
            if isinstance(cell, Score):
                numbers = [
                    scaled(table.metric, cell.mean),
                    *([] if cell.std is None else [scaled(table.metric, cell.std)]),
                ]
                mean, std = (*(repr(number) for number in numbers), "")[:2]
                writer.writerow([*row[: len(keys)], name, mean, std, len(cell.values), cell.p, cell.best])
    return text.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[ResultTable], str]] = {"markdown": markdown, "latex": latex, "csv": comma_separated}


def text_of(
    table: ResultTable,
    bold: str = "{}",
    plus_minus: str = "±",
    dagger: str = "†",
    escape: Callable[[str], str] = str,
) -> list[list[str]]:
    """Return the cells as text: a score as mean and deviation, the best in `bold`, what is worse with a `dagger`."""

    def text(cell: Cell) -> str:
        if not isinstance(cell, Score):
            return escape(cell or "")
        digits = 2 if is_share(table.metric) else 4
        numbers = [cell.mean, *([] if cell.std is None else [cell.std])]
        shown = f" {plus_minus} ".join(f"{scaled(table.metric, number):.{digits}f}" for number in numbers)
        return (bold.format(shown) if cell.best else shown) + (f" {dagger}" if cell.significantly_worse else "")

    return [[text(cell) for cell in row] for row in table.rows]


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text
