"""What all tables of a configuration have in common."""

from typing import Any

from annotated_types import Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

MAX_INT = 2**31 - 1
MAX_FLOAT = 1e30
"""Within single precision, so that a number of a configuration fits every tensor."""


class ConfigTable(BaseModel):
    """A table of a configuration: frozen, without unknown keys, and without a number that has no bounds.

    A field's own upper bound takes the place of the general one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _within_general_bounds(cls, value: Any, info: ValidationInfo) -> Any:
        metadata = cls.model_fields[str(info.field_name)].metadata
        has_own = any(isinstance(bound, Le | Lt) for bound in metadata)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                limit = MAX_INT if isinstance(number, int) else MAX_FLOAT
                if number < -limit:
                    raise ValueError(f"must be at least {-limit}")
                if number > limit and not has_own:
                    raise ValueError(f"must be at most {limit}")
        return value
