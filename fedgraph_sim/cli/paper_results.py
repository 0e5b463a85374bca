"""What the runs of a paper's grid came to, beside what was published."""

from pathlib import Path

from fedgraph_sim.cli.grid_results import Figure, GridResults, Row, padded, printed
from fedgraph_sim.cli.paper import Choice, Paper, Published, cells_of


class PaperResults(GridResults):
    """The results of the chosen cells of a paper's grid; a letter after a published figure names its source."""

    def __init__(self, paper: Paper, choice: Choice, folder: Path) -> None:
        super().__init__(cells_of(paper, choice), folder, title=paper.title, unit=paper.unit)
        self._paper = paper
        self._changes = choice.changes
        sources = dict.fromkeys(table.source for table in paper.published)
        self._letters = {source: chr(ord("a") + number) for number, source in enumerate(sources)}

    @property
    def head(self) -> tuple[str, ...]:
        """The headings of `table`."""
        return ("recipe", "method", "runs", "here", "published")

    def table(self) -> list[tuple[str, ...]]:
        """Return the rows as text."""
        return [
            (
                *line,
                ", ".join(
                    f"{printed(figure)} ({self._letters[table.source]})" for table, figure in self._published(row)
                ),
            )
            for line, row in zip(super().table(), self.rows(), strict=True)
        ]

    def notes(self) -> list[str]:
        """Return what one has to know to read the table."""
        used = {table.source: table for row in self.rows() for table, _ in self._published(row)}
        changed = [f"not as in the recipes: {', '.join(self._changes)}"] if self._changes else []
        return [*super().notes(), *changed, self._paper.note] + [
            f"({letter}) {source}" + (" (a secondary source)" if used[source].secondary else "")
            for source, letter in self._letters.items()
            if source in used
        ]

    def records(self) -> list[dict[str, object]]:
        """Return a line per published figure of each row, or one line without."""
        lines = []
        for row in self.rows():
            published: list[tuple[Published | None, Figure]] = [*self._published(row)]
            for table, figure in published or [(None, ())]:
                mean, std = padded(figure)
                lines.append(
                    self.record(row)
                    | {
                        "published_mean": mean,
                        "published_std": std,
                        "published_runs": table.runs if table else None,
                        "source": table.source if table else None,
                        "secondary": table.secondary if table else None,
                    }
                )
        return lines

    def _published(self, row: Row) -> list[tuple[Published, Figure]]:
        return list(self._paper.figures(row.labels["recipe"], row.labels["method"]))
