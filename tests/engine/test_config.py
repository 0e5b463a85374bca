import pytest
from pydantic import ValidationError

from fedgraph_sim.engine.config import EngineConfig, EvaluationConfig


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("gpus_per_client", 1.5, "a share above 1 must be whole; use 1 or 2"),
        ("gpus_per_client", 0.00001, "at most 4 decimals; use 0.0001"),
        ("gpus_per_client", 0.12345, "at most 4 decimals; use 0.1235"),
        ("gpus_per_client", -1.0, "must be a number from 0"),
        ("gpus_per_client", float("nan"), "finite number"),
        ("gpus_per_client", "half", "valid number"),
        ("cpus_per_client", 2.5, "use 2 or 3"),
        ("clients_per_actor", 0, "must be at least 1"),
        ("clients_per_actor", 1.5, "valid integer"),
        ("checkpoint_every", -1, "greater than or equal to 0"),
        ("gpus_per_clients", 1, "Extra inputs are not permitted"),
    ],
)
def test_engine_refuses(key, value, message):
    with pytest.raises(ValidationError, match=message):
        EngineConfig(**{key: value})


@pytest.mark.parametrize("value", [0, 0.125, 1, 2, "auto"])
def test_engine_accepts_shares_that_ray_can_give(value):
    assert EngineConfig(gpus_per_client=value).gpus_per_client == value


def test_evaluation_refuses_unknown_protocols():
    with pytest.raises(ValidationError, match="'local-mean', 'local-weighted' or 'global'"):
        EvaluationConfig(protocol="best")


def test_config_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        EngineConfig().checkpoint_every = 3
