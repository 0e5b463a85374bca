"""A table that grows for as long as a run goes on: in its file what was written, in memory what came since."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgraph_sim.engine.files import replacing
from fedgraph_sim.engine.schema import described

PIECE = 1 << 14
"""Rows that are read and written at a time; all others of a file stay on disk."""


class GrowingTable:
    """``<folder>/<name>.parquet``, rows of which have a column `round` that never falls.

    Memory is that of the rows since the last `flush`, which writes the file anew, the old rows a piece at a time:
    whoever reads it sees the old file or the new one. Rows may have other columns than those before them.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.parquet"
        self._name = name
        self._rows: list[pa.Table] = []
        self._written = 0
        self._last: int | None = None
        self._is_up_to_date = True

    @property
    def num_rows(self) -> int:
        """The rows, written or not."""
        waiting: int = sum(rows.num_rows for rows in self._rows)
        return self._written + waiting

    def append(self, rows: pa.Table) -> None:
        """Add `rows`, which reach the file with the next `flush`."""
        self._rows.append(rows)
        self._is_up_to_date = False

    def go_back(self, round: int) -> None:
        """Forget the rows after `round`; of a file that is there, those up to it count as written by this table."""
        self._rows.clear()
        self._written = sum(piece.num_rows for piece in rows_until(self._path, round))
        self._last = round
        self._is_up_to_date = not self._path.exists()

    def flush(self) -> None:
        """Bring the file up to date. Raises `OSError` where it cannot be written; nothing is lost then."""
        if self._is_up_to_date:
            return
        old = rows_until(self._path, self._last)
        head = pq.read_schema(self._path).empty_table() if self._path.exists() else pa.table({})
        head = pa.concat_tables([head, *(rows.slice(0, 0) for rows in self._rows)], promote_options="default")
        with (
            replacing(self._path) as temporary,
            pq.ParquetWriter(temporary, described(self._name, head).schema) as file,
        ):
            for piece in _of_some_size(chain(old, self._rows)):
                # Rounds may be measured by other names than those after them.
                whole = pa.concat_tables([head, piece], promote_options="default")
                file.write_table(described(self._name, whole))
        self._written = self.num_rows
        self._rows.clear()
        self._last, self._is_up_to_date = None, True
        pa.default_memory_pool().release_unused()  # it keeps tens of megabytes between two writes


def rows_until(path: Path, round: int | None) -> Iterator[pa.Table]:
    """Yield the rows of a table up to `round`, or all of them, some at a time; none where there is no file.

    Raises `OSError` or `pa.ArrowException` where the file is damaged.
    """
    if not path.exists():
        return
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        # In threads each would keep memory of its own, and gain nothing beside the actors.
        for batch in file.iter_batches(PIECE, use_threads=False):
            rows = pa.Table.from_batches([batch])
            yield rows if round is None else rows.filter(pc.field("round") <= round)


def _of_some_size(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of at least `PIECE` rows, but for the last: a file of many small parts is slow."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(rows.num_rows for rows in waiting) >= PIECE:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
