import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real raw data files."""
    named = os.environ.get("FEDGRAPH_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set FEDGRAPH_TEST_DATA to its folder")
    return folder
