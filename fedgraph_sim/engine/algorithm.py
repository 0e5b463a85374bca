"""The interface of an algorithm: a server's round in straight lines, and the client steps that it calls."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from fedgraph_sim.config_table import ConfigTable
from fedgraph_sim.datasets.graph_dataset import GRAPH
from fedgraph_sim.datasets.kind import Kind
from fedgraph_sim.engine.client_data import ClientData
from fedgraph_sim.engine.graph_tensors import GraphTensors
from fedgraph_sim.engine.random_stream import RandomStream
from fedgraph_sim.engine.series_tensors import SeriesTensors
from fedgraph_sim.engine.tree import Tree

if TYPE_CHECKING:
    from fedgraph_sim.engine.federation import Federation, Task
    from fedgraph_sim.engine.replies import Replies


@dataclass
class Client:
    """What a client step sees: its own data, its own state, this call's random stream, what the server published.

    `state` is a tree that stays in the client's process from call to call: personal layers, optimiser moments, masks.
    `public` is the same for all clients, see `Federation.publish`.
    """

    data: ClientData
    random: RandomStream
    state: dict[str, Tree] = field(default_factory=dict)
    public: Tree = None

    @property
    def graph(self) -> GraphTensors:
        """The client's graph, where its data are one. A step may look at another one instead, until it ends."""
        assert isinstance(self.data, GraphTensors), "the algorithm's kind of data is a graph"
        return self.data

    @graph.setter
    def graph(self, graph: GraphTensors) -> None:
        self.data = graph

    @property
    def series(self) -> SeriesTensors:
        """The client's time series, where its data are such."""
        assert isinstance(self.data, SeriesTensors), "the algorithm's kind of data are time series"
        return self.data


ClientStep = Callable[[Client, Any], Tree]
"""A method that runs where the client lives: ``step(client, message) -> reply``, message and reply being trees.

A step never edits a tensor that it received: others may be reading it.
"""

Step = TypeVar("Step", bound=Callable[..., Tree])


@overload
def client_step(function: Step, /) -> Step: ...
@overload
def client_step(*, batched: bool) -> Callable[[Step], Step]: ...
def client_step(function: Step | None = None, /, *, batched: bool = False) -> Step | Callable[[Step], Step]:
    """Mark a method as a client step.

    ``batched=True`` promises that the step is a pure function of tensors, with no branch on a tensor's value, so that
    all clients of an actor may run in one computation.
    """

    def mark(step: Step) -> Step:
        step.__dict__["batched"] = batched
        return step

    return mark(function) if function is not None else mark


def is_batched(step: ClientStep) -> bool:
    """Tell whether a client step may run for many clients in one computation."""
    marks = step.__func__.__dict__ if isinstance(step, MethodType) else step.__dict__
    if "batched" not in marks:
        raise TypeError(f"{step.__name__} is not a client step; mark it with @client_step")
    return bool(marks["batched"])


class Algorithm(ConfigTable, ABC):
    """Hyper-parameters (the fields, which are also the ``[algorithm]`` table of a config) and the text of one round.

    There is no other state: the server's is a tree that goes into a round and comes out of it, a client's stays in its
    own process.
    """

    summary: ClassVar[str]
    """One line for lists."""
    kind: ClassVar[Kind] = GRAPH
    """The kind of data that its clients hold."""
    pooled: ClassVar[bool] = False
    """Whether one party holds the whole graph, as in a centralised reference run."""
    has_global_model: ClassVar[bool] = True
    """Whether `global_model` exists, which the evaluation protocol ``global`` asks for."""
    lends_models: ClassVar[bool] = False
    """Whether `lend` exists, so that ``global`` can judge every client's own model where there is no global one."""

    name: str

    @property
    def preparation_rounds(self) -> int:
        """Number of rounds that come before those that a run asks for, and end without a model to be judged."""
        return 0

    @property
    def metric(self) -> str:
        """What selects the best round: that of the best ``val_<metric>``, see `metric_of`."""
        return "accuracy"

    @property
    def predicts_links(self) -> bool:
        """Whether a client's links are examples (``graph.links``), and some are held out from its graph."""
        return False

    def notices(self, task: "Task", places: Sequence[Sequence[int]]) -> Sequence[str]:
        """Return what a user wants to know before the run starts, such as what will be large; a line each.

        `places` are the clients of each process that exchanges with others through Ray.
        """
        return ()

    @abstractmethod
    def setup(self, fed: "Federation") -> Tree:
        """Return the server's state before the first round."""

    @abstractmethod
    def round(self, fed: "Federation", server: Tree) -> Tree:
        """Run one round and return the server's state after it."""

    def ask_for_scores(self, fed: "Federation", server: Tree) -> "Replies":
        """Begin to evaluate all clients' own models, by calls that count as evaluation; the last one's replies count.

        Where a prediction needs nothing but the client itself, that is one call of `evaluate`.
        """
        return fed.call(self.evaluate)

    @abstractmethod
    def evaluate(self, client: Client, message: Tree) -> Tree:
        """Client step: return ``{"<role>_<metric>": [sum, count]}`` on the client's own nodes, links or readings.

        `message` is None for the client's own model, or the result of `global_model`. Two more entries are possible:
        ``steps``, with pairs [num_steps, 2] for each step of a forecast, and ``forecast``, of curves [n] to be plotted
        over each other, such as what was read and what had been predicted.
        """

    def remarks(self, *, rounds: int, evaluations: int) -> dict[str, float | None]:
        """Return what the summary of a run of so many rounds and evaluations says beyond its metrics, by name."""
        return {}

    def global_model(self, server: Tree) -> Tree:
        """Return the message with which `evaluate` judges the server's model."""
        raise NotImplementedError

    @client_step
    def lend(self, client: Client, message: None) -> Tree:
        """Client step: return the client's own model, with which `evaluate` judges it elsewhere."""
        raise NotImplementedError
