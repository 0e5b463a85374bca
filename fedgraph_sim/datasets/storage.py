"""What every store has in common: a folder from which one client's data are read without reading the others'."""

import hashlib
import inspect
import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraph_sim import __version__
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.datasets.split import Splitter
from fedgraph_sim.errors import ConfigError
from fedgraph_sim.seeds import seed_for

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from fedgraph_sim.datasets.dataset import Dataset

VERSION = 2
INFO_FILE = "info.json"
"""The figures of the division, in a store's folder."""

Data = TypeVar("Data")
Counts = tuple[int, ...]


class StoreInfo(Protocol):
    """Figures of a divided data set, whatever its kind."""

    @property
    def dataset(self) -> str:
        """Name of the data set."""

    @property
    def partition(self) -> str:
        """Name of the partitioner."""

    @property
    def num_clients(self) -> int:
        """Number of clients."""

    @property
    def num_features(self) -> int:
        """Width of a model's input."""

    @property
    def num_classes(self) -> int:
        """Width of a model's output."""

    @property
    def train(self) -> Counts:
        """Training examples of each client."""

    @property
    def example(self) -> str:
        """What a training example is, in sentences."""

    @property
    def sizes(self) -> Counts:
        """How much each client has to compute on, for packing."""

    @property
    def summary(self) -> str:
        """The data set in half a sentence."""

    @property
    def division(self) -> str:
        """The partition in half a sentence."""

    @property
    def columns(self) -> Mapping[str, Sequence[int]]:
        """Figures of each client, by heading."""

    @property
    def notes(self) -> Sequence[str]:
        """The data set and its partition, in some lines."""

    @property
    def matrices(self) -> Mapping[str, NDArray[np.float64]]:
        """Numbers for each pair of clients [num_clients, num_clients]."""


class Store(ABC, Generic[Data]):
    """A divided data set on disk; reading a damaged one raises `ConfigError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def info(self) -> StoreInfo:
        """Figures of the division."""

    @abstractmethod
    def load(self, clients: Sequence[int]) -> dict[int, Data]:
        """Return the data of `clients`, reading only theirs."""

    @abstractmethod
    def whole(self) -> Data:
        """Return the undivided data; what no client holds has no role."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Tell whether all files are there and whole."""

    @abstractmethod
    def client_graph(self) -> sparse.csr_array:
        """Return the weights of the links between clients [num_clients, num_clients], row = target."""

    @classmethod
    @abstractmethod
    def create(
        cls, folder: Path, data: Data, members: Sequence[NDArray[np.int64]], *, dataset: str, partition: str
    ) -> Self:
        """Divide `data` by `members`, write it to `folder` and return the store."""

    @classmethod
    def _written(cls, folder: Path, write: "Callable[[Path], DataclassInstance]") -> Self:
        """Let `write` fill a folder and return its figures, for ``info.json``, which comes last.

        It is written beside `folder` and renamed, so that nobody sees half a store; of several processes that create
        the same store at once, the first wins and the others use its result. Raises `ConfigError` where it cannot.
        """
        unfinished = folder.with_name(f".{folder.name}-{uuid4().hex}")
        try:
            unfinished.mkdir(parents=True)
            info = write(unfinished)
            (unfinished / INFO_FILE).write_text(json.dumps(asdict(info)))
            cls._move(unfinished, folder)
        except OSError as error:
            raise ConfigError(
                f"the cache folder {folder.parent} cannot be written ({error}); make it writable, free space on its"
                " disk, or set FEDGRAPH_CACHE to another folder"
            ) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return cls(folder)

    @classmethod
    def _move(cls, unfinished: Path, folder: Path) -> None:
        if folder.exists() and not cls(folder).is_complete():
            damaged = folder.with_name(f"{unfinished.name}-damaged")
            with suppress(FileNotFoundError):  # another process was faster
                folder.rename(damaged)
            shutil.rmtree(damaged, ignore_errors=True)
        try:
            unfinished.rename(folder)
        except OSError:  # another process was first
            if not cls(folder).is_complete():
                raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ConfigError:
            raise
        except Exception as error:  # garbage may fail in any way
            reason = " ".join(str(error).split())
            raise ConfigError(f"the partition store {self.folder} is damaged ({reason}); delete it") from error


def prepare(
    dataset: "Dataset",
    split: Splitter,
    partitioner: Partitioner,
    *,
    num_clients: int,
    seed: int,
    data_dir: Path | None,
    cache_dir: Path,
) -> tuple[Store[Any], bool]:
    """Return the store of this partition, and whether it was there already.

    Raises `ConfigError` where the data set, the split or the partition is impossible.
    """
    dataset = dataset.seeded(seed_for(seed, "dataset"))
    options = (split.fingerprint(), partitioner.model_dump_json(), num_clients, seed, __version__, VERSION)
    own_code = _own_code(dataset) + _own_code(partitioner)
    text = repr((dataset.fingerprint(data_dir, cache_dir), *options, *own_code))
    key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    store = dataset.kind.store(cache_dir / "partitions" / key)
    if store.is_complete():
        return store, True
    data = split.apply(dataset.load(data_dir, cache_dir), seed_for(seed, "split"))
    try:
        data.checked()
    except ValueError as error:
        raise ConfigError(
            f"the data set {dataset.name} returns arrays that do not fit ({error}); correct it"
        ) from error
    members = partitioner.assign(data, num_clients, seed_for(seed, "partition"))
    names = {"dataset": dataset.name, "partition": partitioner.name}
    return dataset.kind.store.create(store.folder, data, members, **names), False


def _own_code(model: "Dataset | Partitioner") -> tuple[str, ...]:
    """Return the source of the module of a class that is not the package's: whoever edits it gets another store."""
    module = type(model).__module__
    if module.startswith("fedgraph_sim."):
        return ()
    try:
        return (inspect.getsource(sys.modules[module]),)
    except (OSError, TypeError):  # typed into an interpreter: nobody can tell whether it is as before
        return (uuid4().hex,)
