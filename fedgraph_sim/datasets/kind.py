"""Kinds of data that clients may hold: what follows for a configuration, and where the data are kept."""

from dataclasses import dataclass
from typing import Any

from fedgraph_sim.datasets.split import Splitter
from fedgraph_sim.datasets.storage import Store


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One kind of data; data sets, partitioners and algorithms each name the kind, or kinds, that they are for.

    `noun` is what a data set of the kind holds, in sentences. `split` is the class of the ``[split]`` table, `store`
    where the clients' parts are kept. `partition` and `protocol` are the defaults, `protocols` all that make sense, and
    `clients` the default number of clients.
    """

    noun: str
    split: type[Splitter]
    store: type[Store[Any]]
    partition: str
    clients: int
    protocols: tuple[str, ...]

    @property
    def protocol(self) -> str:
        """The evaluation protocol unless the user says otherwise."""
        return self.protocols[0]
