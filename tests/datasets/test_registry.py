import subprocess
import sys

import pytest
from pydantic import ValidationError

from fedgraph_sim.datasets.registry import DATASETS, PARTITIONERS
from fedgraph_sim.datasets.split import Split


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_can_be_named(name):
    options = {"path": "somewhere"} if name in ("folder", "pyg-file", "traffic") else {}
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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, -1e300])
@pytest.mark.parametrize("kind", [*DATASETS.values(), *PARTITIONERS.values(), Split])
def test_numbers_without_a_sensible_size_are_refused(kind, value):
    for name, field in kind.model_fields.items():
        if field.annotation is float:
            with pytest.raises(ValidationError, match=name):
                kind(**{name: value})


def test_importing_is_light():
    code = "import sys, fedgraph_sim.datasets.registry, fedgraph_sim.datasets.store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
