"""The resolved configuration of a run."""

from typing import Literal

from pydantic import Field, SerializeAsAny, field_validator

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.datasets.dataset import Dataset
from fedgraph_sim.datasets.link_split import LinkSplit
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.datasets.split import Split, Splitter
from fedgraph_sim.engine.algorithm import Algorithm
from fedgraph_sim.engine.system import SystemConfig
from fedgraph_sim.seeds import seed_for

Protocol = Literal["local-mean", "local-weighted", "global"]


class EngineConfig(ConfigTable):
    """How clients are placed on actors, and actors on the cluster."""

    clients_per_actor: int | Literal["auto"] = Field(
        "auto",
        description='clients that share one actor; "auto": one each while actors fit, else packed evenly by size',
        json_schema_extra={"unit": "clients"},
    )
    cpus_per_client: float | Literal["auto"] = Field(
        "auto",
        description="CPUs that an actor reserves for the client it is running; whole ones are its torch threads",
        json_schema_extra={"unit": "CPUs"},
    )
    gpus_per_client: float | Literal["auto"] = Field(
        "auto",
        description='GPU share that an actor reserves for the client it is running; "auto": all GPUs, evenly',
        json_schema_extra={"unit": "GPUs"},
    )
    server_gpus: float = Field(
        0,
        description="GPU share that the server reserves on its machine, for algorithms that train a model there",
        json_schema_extra={"unit": "GPUs"},
    )
    batched: bool = Field(
        True,
        description="whether an actor runs its clients in one computation where a step allows it; false: one after "
        "another, slower, and bit-identical for every packing",
    )
    checkpoint_every: int = Field(
        0,
        ge=0,
        description="rounds between checkpoints, from which a run goes on when an actor dies, or with `run --resume`; "
        "the last round is always one; 0: no checkpoints",
        json_schema_extra={"unit": "rounds"},
    )
    step_timeout: float = Field(
        0,
        ge=0,
        le=1e7,
        description="seconds without an answer after which the clients of an actor are taken to hang, and the run "
        "ends; 0: never",
        json_schema_extra={"unit": "s"},
    )

    @field_validator("clients_per_actor")
    @classmethod
    def _at_least_one(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 1:
            raise ValueError('must be at least 1, or "auto"')
        return value

    @field_validator("cpus_per_client", "gpus_per_client", "server_gpus")
    @classmethod
    def _a_share_that_ray_can_give(cls, value: float | str) -> float | str:
        if isinstance(value, str):
            return value
        if not 0 <= value < 1e6:
            raise ValueError('must be a number from 0, or "auto"')
        if value > 1 and value != int(value):
            raise ValueError(f"a share above 1 must be whole; use {int(value)} or {int(value) + 1}")
        if round(value, 4) != value:
            raise ValueError(f"a share has at most 4 decimals; use {max(round(value, 4), 0.0001):g}")
        return value


class EvaluationConfig(ConfigTable):
    """How the models are measured."""

    protocol: Protocol = Field(
        "local-mean",
        description='"local-mean": each client\'s own model on its own nodes or links, unweighted mean over clients; '
        '"local-weighted": the same, weighted by nodes, links or readings; '
        "\"global\": the server's model on the union of the clients' nodes, or all links, in the whole, "
        "unsplit graph (where there is none, the mean over the clients' own models, if the algorithm lends them)",
    )
    every: int = Field(
        1,
        ge=1,
        description="rounds between evaluations; the last round is always evaluated",
        json_schema_extra={"unit": "rounds"},
    )
    patience: int = Field(
        0,
        ge=0,
        description="rounds without a better validation after which the run ends early; 0: all rounds are run",
        json_schema_extra={"unit": "rounds"},
    )


class RunConfig(ConfigTable):
    """All that determines a run's results, and where it is placed."""

    clients: int = Field(
        10,
        ge=0,
        le=10_000_000,
        description="number of clients; 0: one per sensor of time series",
        json_schema_extra={"unit": "clients"},
    )
    rounds: int = Field(
        100, ge=1, le=1_000_000, description="number of communication rounds", json_schema_extra={"unit": "rounds"}
    )
    fraction: float = Field(1.0, gt=0, le=1, description="share of the clients sampled in a round, at least one client")
    seed: int = Field(
        0,
        ge=0,
        lt=2**63,
        description="seed of the split, the weights and all draws of the run; METIS and csbm have seeds of their own",
    )
    data_seed: int = Field(
        -1,
        ge=-1,
        lt=2**63,
        description="seed of the split and of the partition; -1: the run's, so that another seed is another split",
    )
    algorithm: SerializeAsAny[Algorithm]
    dataset: SerializeAsAny[Dataset]
    split: SerializeAsAny[Splitter] = Split()
    partition: SerializeAsAny[Partitioner]
    engine: EngineConfig = EngineConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    system: SystemConfig = SystemConfig()

    @property
    def num_rounds(self) -> int:
        """The number of all rounds: those of preparation, if the algorithm has some, and those asked for."""
        return self.algorithm.preparation_rounds + self.rounds

    @property
    def label(self) -> str:
        """The names of algorithm and data set, for a folder; of ``module:Class`` the class."""
        return "-".join(name.rpartition(":")[2] for name in (self.algorithm.name, self.dataset.name))

    @property
    def partition_seed(self) -> int:
        """The seed of the data, the split and the partition."""
        return self.seed if self.data_seed < 0 else self.data_seed

    @property
    def link_split(self) -> LinkSplit | None:
        """How links are split into roles; None where no link is predicted."""
        return self.split.links(seed_for(self.partition_seed, "links")) if self.algorithm.predicts_links else None
