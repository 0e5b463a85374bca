import subprocess
import sys

import pytest
from pydantic import ValidationError

from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_can_be_named(name):
    options = {"path": "somewhere"} if name in ("folder", "pyg-file") else {}
    dataset = DATASETS[name](name=name, **options)
    assert dataset.name == name
    assert dataset.summary


@pytest.mark.parametrize("name", PARTITIONERS)
def test_every_partitioner_can_be_named(name):
    assert PARTITIONERS[name](name=name).summary


@pytest.mark.parametrize("table", [DATASETS, PARTITIONERS])
def test_every_option_is_described_and_unknown_ones_are_refused(table):
    for name, kind in table.items():
        assert all(field.description for field in kind.model_fields.values())
        with pytest.raises(ValidationError, match="Extra inputs"):
            kind(name=name, path="x", typo=1)


def test_importing_is_light():
    code = "import sys, fedgraph_sim.datasets.registry, fedgraph_sim.datasets.store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
