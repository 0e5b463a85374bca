"""A graph that the user saved with PyTorch Geometric."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets import checks
from fedgraph_sim.datasets.dataset import AbsolutePath
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset
from fedgraph_sim.errors import ConfigError

if TYPE_CHECKING:
    import torch

MASKS = {"train_mask": Role.TRAIN, "val_mask": Role.VAL, "test_mask": Role.TEST}
USED = ("x", "edge_index", "y", "edge_weight", *MASKS)
NUMBERS = "biuf"
INTEGERS = "iu"

Arrays = dict[str, NDArray[Any]]


class PygFile(GraphDataset):
    """One `torch_geometric.data.Data`, or a dict of its tensors, saved with `torch.save`.

    Used: `x` [num_nodes, num_features], `edge_index` [2, num_edges], `y` [num_nodes] of integers from 0 (-1 where
    unknown); where present `edge_weight` [num_edges], and `train_mask`, `val_mask`, `test_mask` as the own roles.
    """

    summary: ClassVar[str] = "your own graph: a torch_geometric Data object saved with torch.save"

    name: Literal["pyg-file"] = Field("pyg-file", description="name of the data set")
    path: AbsolutePath = Field(description="the file")
    largest_component: bool = Field(False, description="keep only the largest weakly connected component")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the path of the file."""
        return (self.path,)

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the graph, every array checked."""
        arrays = {key: _array(key, tensor, self.path) for key, tensor in _load(self.path).items()}
        for key in ("x", "edge_index", "y"):
            if key not in arrays:
                raise ConfigError(f"{self.path} has no {key}; save a Data object with x, edge_index and y")
        if arrays["y"].ndim == 2 and arrays["y"].shape[1] == 1:
            arrays["y"] = arrays["y"][:, 0]
        return _graph(self.path, arrays)


def _graph(path: Path, arrays: Arrays) -> Graph:
    x, edge_index, y, weight = arrays["x"], arrays["edge_index"], arrays["y"], arrays.get("edge_weight")
    _refuse_misfits(arrays, path)
    checks.finite_features(x, path)
    checks.labels(y, path)
    checks.edges_in_range(edge_index, len(y), path)
    if weight is not None:
        checks.weights(weight, path)
    return Graph(
        x=x.astype(np.float32),
        edge_index=edge_index.astype(np.int64),
        edge_weight=None if weight is None else weight.astype(np.float32),
        y=y.astype(np.int64),
        role=_roles(arrays, len(y), path),
        node_id=np.arange(len(y)),
        num_classes=int(y.max()) + 1,
    )


def _refuse_misfits(arrays: Arrays, path: Path) -> None:
    """Refuse arrays of a wrong shape or kind of number."""
    x, edge_index, y, weight = arrays["x"], arrays["edge_index"], arrays["y"], arrays.get("edge_weight")
    fits = {
        "x": x.ndim == 2 and x.size > 0 and x.dtype.kind in NUMBERS,
        "edge_index": edge_index.ndim == 2 and len(edge_index) == 2 and edge_index.dtype.kind in INTEGERS,
        "y": y.shape == x.shape[:1] and y.dtype.kind in INTEGERS,
        "edge_weight": weight is None or (weight.shape == edge_index.shape[1:] and weight.dtype.kind in NUMBERS),
    }
    for key, fit in fits.items():
        if not fit:
            raise ConfigError(
                f"{path}: {key} has shape {list(arrays[key].shape)} and type {arrays[key].dtype}, which does not fit;"
                " save x [nodes, features], edge_index [2, edges], y [nodes] of integers from 0, edge_weight [edges]"
            )


def _roles(arrays: Arrays, num_nodes: int, path: Path) -> NDArray[np.int8]:
    role = np.zeros(num_nodes, dtype=np.int8)
    for key, value in MASKS.items():
        if key not in arrays:
            continue
        mask = arrays[key]
        if mask.shape != (num_nodes,) or mask.dtype.kind not in "biu":
            raise ConfigError(
                f"{path}: {key} has shape {list(mask.shape)} and type {mask.dtype}; save [{num_nodes}] of true or false"
            )
        row = checks.first((mask != 0) & (role != Role.NONE))
        if row is not None:
            raise ConfigError(f"{path}: {key} marks node row {row} as another mask does; give each node one role")
        role[mask != 0] = value
    return role


def _load(path: Path) -> Mapping[str, "torch.Tensor"]:
    """Return the tensors that are used; nothing but tensors and Data objects is unpickled."""
    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    safe = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(safe):
            warnings.simplefilter("ignore", UserWarning)  # of a bare pickle torch says more than our one sentence
            content = torch.load(path, map_location="cpu", weights_only=True)
        values = content.to_dict() if isinstance(content, Data) else content if isinstance(content, dict) else {}
        return {key: values[key] for key in USED if isinstance(values.get(key), torch.Tensor)}
    except OSError as error:
        raise ConfigError(f"dataset.path={str(path)!r} cannot be read ({error}); give a file of torch.save") from error
    except Exception as error:  # a foreign file may fail in any way
        raise ConfigError(
            f"dataset.path={str(path)!r} is not read because it is no file of torch.save, or holds more than tensors,"
            " which could run any code; save a Data object, or a dict, of x, edge_index and y only"
        ) from error


def _array(key: str, tensor: "torch.Tensor", path: Path) -> NDArray[Any]:
    try:
        return np.asarray(tensor.numpy(force=True))
    except Exception as error:  # sparse, quantized, bfloat16, without data, ...
        raise ConfigError(
            f"{path}: {key} is a tensor of type {tensor.dtype} and layout {tensor.layout} on {tensor.device}, which"
            " NumPy cannot hold; save dense float32 or int64 tensors"
        ) from error
