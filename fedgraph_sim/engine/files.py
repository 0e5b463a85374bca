"""Files that readers see whole: the old one or the new one, never half of it."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CONFIG_FILE = "config.toml"
"""The resolved configuration; what makes a folder a run's folder."""
PARTITION_FILE = "partition.json"
"""The figures of the run's partition, a `PartitionInfo`."""
SUMMARY_FILE = "summary.json"
"""The run in one screen, once it has ended."""


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
