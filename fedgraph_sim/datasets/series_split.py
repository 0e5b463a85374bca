"""Which stretches of time train a model, which select it and which test it; and which sensors train at all."""

from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedgraph_sim.counts import counted
from fedgraph_sim.datasets.series import SensorSeries
from fedgraph_sim.datasets.split import Splitter
from fedgraph_sim.errors import ConfigError


class ChronologicalSplit(Splitter):
    """Windows in the order of time: the first are for training, the next for validation, the last for test.

    Of W windows round(test W) test and round(train W) train, as Li et al., Diffusion Convolutional Recurrent Neural
    Network, ICLR 2018, have it. With `seen` below 1 or `unseen` sensors the setting is inductive: those sensors take no
    part in training and validation, and are tested with all others.
    """

    train: float = Field(0.7, gt=0, le=1, description="fraction of the windows that train, the earliest")
    val: float = Field(0.1, ge=0, le=1, description="fraction of the windows that validate")
    test: float = Field(0.2, ge=0, le=1, description="fraction of the windows that test, the latest")
    stride: int = Field(
        1,
        ge=1,
        le=2**31 - 1,
        description="steps from one training window to the next",
        json_schema_extra={"unit": "steps"},
    )
    seen: float = Field(1.0, gt=0, le=1, description="share of the sensors that take part in training")
    seen_by: Literal["longitude", "order"] = Field(
        "longitude", description="which sensors those are: the westernmost, or the first in the data"
    )
    unseen: tuple[str, ...] = Field((), description="names of sensors that take no part in training, instead of seen")

    @model_validator(mode="after")
    def _fractions_fit(self) -> Self:
        total = self.train + self.val + self.test
        if total > 1 + 1e-9:
            raise ValueError(f"train + val + test is {total:g}; lower them to at most 1")
        return self

    def apply(self, data: SensorSeries, seed: int) -> SensorSeries:
        """Return the series with windows and seen sensors; nothing is drawn."""
        count = data.num_windows
        num_test, num_train = round(count * self.test), round(count * self.train)
        num_val = min(round(count * self.val), count - num_test - num_train)
        if num_train < 1:
            raise ConfigError(
                f"split.train={self.train:g} of {counted(count, 'window')} of {data.history} + {data.horizon} steps is "
                "none; raise split.train, or use a longer series"
            )
        starts = {
            "train": np.arange(0, num_train, self.stride),
            "val": np.arange(num_train, num_train + num_val),
            "test": np.arange(count - num_test, count),
        }
        is_seen = self._seen(data)
        if not data.observed[is_seen, : num_train - 1 + data.history + data.horizon].any():
            raise ConfigError(
                "no sensor that trains has a reading in the training steps; use others, or raise split.train"
            )
        return replace(data, starts=starts, is_seen=is_seen)

    def _seen(self, data: SensorSeries) -> NDArray[np.bool_]:
        if self.unseen:
            missing = [name for name in self.unseen if name not in data.names]
            if missing:
                raise ConfigError(f"split.unseen names {missing[0]!r}, which is no sensor; use names of the data set")
            is_seen = ~np.isin(np.array(data.names), self.unseen)
        elif self.seen == 1:
            is_seen = np.ones(data.num_nodes, dtype=bool)
        else:
            is_seen = np.zeros(data.num_nodes, dtype=bool)
            is_seen[self._order(data)[: max(1, round(self.seen * data.num_nodes))]] = True
        if not is_seen.any():
            raise ConfigError("split.unseen names every sensor; leave at least one that trains")
        return is_seen

    def _order(self, data: SensorSeries) -> NDArray[np.int64]:
        if self.seen_by == "order":
            return np.arange(data.num_nodes)
        if data.position is None:
            raise ConfigError(
                "split.seen_by='longitude' but the data set has no positions; use split.seen_by='order' or split.unseen"
            )
        return np.argsort(data.position[:, 0], kind="stable")
