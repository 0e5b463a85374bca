"""A graph that the user saved with PyTorch Geometric."""

import hashlib
import pickle
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgraph_sim.datasets import checks, raw
from fedgraph_sim.datasets.dataset import AbsolutePath, Dataset
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.errors import ConfigError


class PygFile(Dataset):
    """One `torch_geometric.data.Data`, or a dict of its tensors, saved with `torch.save`.

    Used: `x` [num_nodes, num_features], `edge_index` [2, num_edges], `y` [num_nodes] of integers from 0 (-1 where
    unknown); where present `edge_weight` [num_edges], and `train_mask`, `val_mask`, `test_mask` as the own roles.
    """

    summary: ClassVar[str] = "your own graph: a torch_geometric Data object saved with torch.save"

    name: Literal["pyg-file"] = Field("pyg-file", description="name of the data set")
    path: AbsolutePath = Field(description="the file")
    largest_component: bool = Field(False, description="keep only the largest weakly connected component")
    normalize_features: bool = Field(False, description="shift features to a minimum of 0 and divide rows by their sum")

    def fingerprint(self, data_dir: Path | None, cache_dir: Path) -> str:
        """Return a hash of the options and of the file's content."""
        text = self.model_dump_json(exclude={"path"}) + raw.own_file_hash(self.path)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the graph, every array checked."""
        arrays = _load(self.path)
        for key in ("x", "edge_index", "y"):
            if key not in arrays:
                raise ConfigError(f"{self.path} has no {key}; save a Data object with x, edge_index and y")
        y = arrays["y"].squeeze()
        return _graph(self.path, arrays, y)


def _graph(path: Path, arrays: dict[str, NDArray[Any]], y: NDArray[Any]) -> Graph:
    x, edge_index, weight = arrays["x"], arrays["edge_index"], arrays.get("edge_weight")
    num_nodes = x.shape[0] if x.ndim == 2 else -1
    shapes = {"x": x.ndim == 2 and x.size > 0, "edge_index": edge_index.ndim == 2 and len(edge_index) == 2}
    shapes["y"] = y.shape == (num_nodes,) and np.issubdtype(y.dtype, np.integer) and y.size > 0 and y.min() >= -1
    shapes["edge_weight"] = weight is None or weight.shape == edge_index.shape[1:]
    for key, fits in shapes.items():
        if not fits:
            raise ConfigError(
                f"{path}: {key} has shape {list(arrays[key].shape)} and type {arrays[key].dtype}, which does not fit;"
                " save x [nodes, features], edge_index [2, edges], y [nodes] of integers from 0, edge_weight [edges]"
            )
    checks.finite_features(x, path)
    checks.edges_in_range(edge_index, num_nodes, path)
    if weight is not None:
        checks.weights(weight, path)
    return Graph(
        x=x.astype(np.float32),
        edge_index=edge_index.astype(np.int64),
        edge_weight=None if weight is None else weight.astype(np.float32),
        y=y.astype(np.int64),
        role=_roles(arrays, num_nodes),
        node_id=np.arange(num_nodes),
        num_classes=int(y.max()) + 1,
    )


def _roles(arrays: dict[str, NDArray[Any]], num_nodes: int) -> NDArray[np.int8]:
    role = np.zeros(num_nodes, dtype=np.int8)
    for value, key in ((Role.TRAIN, "train_mask"), (Role.VAL, "val_mask"), (Role.TEST, "test_mask")):
        mask = arrays.get(key)
        if mask is not None and mask.shape == (num_nodes,):
            role[mask.astype(bool)] = value
    return role


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """Return the file's tensors as arrays; nothing but tensors and Data objects is unpickled."""
    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(f"dataset.path={str(path)!r} cannot be read ({error}); give a file of torch.save") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"dataset.path={str(path)!r} is not read because it is no file of torch.save, or holds more than tensors,"
            " which could run any code; save a Data object, or a dict, of x, edge_index and y only"
        ) from error
    values = content.to_dict() if isinstance(content, Data) else content if isinstance(content, dict) else {}
    return {str(key): value.numpy() for key, value in values.items() if isinstance(value, torch.Tensor)}
