"""Files that readers see whole: the old one or the new one, never half of it."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_table(path: Path, table: pa.Table) -> None:
    """Replace a Parquet file at once."""
    temporary = path.with_suffix(".tmp")
    pq.write_table(table, temporary)
    os.replace(temporary, path)


def write_text(path: Path, text: str) -> None:
    """Replace a text file at once."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
