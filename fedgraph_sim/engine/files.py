"""Files that readers see whole: the old one or the new one, never half of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CONFIG_FILE = "config.toml"
"""The resolved configuration; what makes a folder a run's folder."""
PARTITION_FILE = "partition.json"
"""The figures of the run's partition, a `PartitionInfo`."""
SUMMARY_FILE = "summary.json"
"""The run in one screen, once it has ended."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, which replaces `path` at once at the end; after an error nothing is left of it."""
    temporary = path.with_suffix(".tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_table(path: Path, table: pa.Table) -> None:
    """Replace a Parquet file at once."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)


def write_text(path: Path, text: str) -> None:
    """Replace a text file at once."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
