from typing import Any, get_args

import pytest
from pydantic import ValidationError

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.configuration import NAMED, PLAIN
from fedgraph_sim.datasets.series_dataset import SERIES
from fedgraph_sim.engine.config import RunConfig

MODELS = {model for classes in (*NAMED.values(), PLAIN) for model in classes.values()} | {SERIES.split, RunConfig}
NUMBERS = [
    pytest.param(model, key, kind, id=f"{model.__name__}.{key}-{kind.__name__}")
    for model in sorted(MODELS, key=lambda model: model.__name__)
    for key, field in model.model_fields.items()
    for kind in (int, float)
    if kind in (field.annotation, *get_args(field.annotation))
]


class Own(ConfigTable):
    """A table of a user who has not thought of bounds."""

    count: int = 1
    sizes: tuple[int, ...] = (1,)
    rate: float | None = None


def refused_keys(model: type[ConfigTable], key: str, value: Any) -> set[Any]:
    with pytest.raises(ValidationError) as refused:
        model.model_validate({key: value})
    return {error["loc"][0] for error in refused.value.errors()}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("model", "key", "kind"), NUMBERS)
def test_every_number_has_bounds(model, key, kind, sign):
    huge = sign * (10**23 if kind is int else 1e31)
    for value in (huge, (huge,)):
        assert key in refused_keys(model, key, value)


def test_a_users_own_table_has_general_bounds():
    assert Own(count=2**31 - 1, sizes=(2**31 - 1,), rate=1e30).rate == 1e30
    for key, value in {"count": 2**31, "sizes": (1, 2**31), "rate": -1e31}.items():
        assert refused_keys(Own, key, value) == {key}
