import pytest

from fedgraph_sim.algorithms.registry import ALGORITHMS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_its_name_and_documented_parameters(name):
    algorithm = ALGORITHMS[name]()
    assert algorithm.name == name
    assert algorithm.summary
    fields = {key: field for key, field in type(algorithm).model_fields.items() if key != "name"}
    assert all(field.description for field in fields.values())
