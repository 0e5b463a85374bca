"""Checkpoints: all that a run needs to go on after a round, in safetensors and JSON; reading one runs no code of it."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedgraph_sim import __version__
from fedgraph_sim.engine.config import RunConfig
from fedgraph_sim.engine.forecasts import Curves
from fedgraph_sim.engine.matrices import ClientMatrix
from fedgraph_sim.engine.run_tables import Extent
from fedgraph_sim.engine.tree import Tree
from fedgraph_sim.errors import ConfigError, RunError

FORMAT = 2
KEPT = 2
"""Checkpoints of a run that are kept, the latest ones."""
FOLDER, FILE = "checkpoints", "checkpoint.json"


@dataclass(frozen=True)
class SpreadRows:
    """What a spread value is while it is in a file: the rows of `clients`, each leaf with a leading client axis."""

    clients: tuple[int, ...]
    rows: Tree


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run after `round`: the server's state, what it published last, every client's state.

    `matrices` were recorded and not yet written; `forecast` is the best round with forecasts, and these. The tables of
    the run's folder hold the rounds up to this one, and have the extents `tables`.
    """

    round: int
    server: Tree
    public: Tree
    clients: Mapping[int, Tree]
    matrices: Sequence[ClientMatrix] = ()
    forecast: tuple[int, Curves] | None = None
    tables: Mapping[str, Extent] = field(default_factory=dict)


def run_key(config: RunConfig, store: Path) -> str:
    """Return what tells apart runs whose checkpoints must not be mixed: all but where clients are placed."""
    text = config.model_dump_json(exclude={"engine"}) + (store / "info.json").read_text(encoding="utf-8")
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, key: str) -> Path:
    """Write ``<folder>/round-<round>`` at once: it is complete or absent; older ones than the last `KEPT` go.

    ``server.safetensors`` has names such as ``weights/head.bias``, ``clients.safetensors`` the same behind the client's
    number, ``checkpoint.json`` the trees and every file's digest. Raises `RunError` where it cannot be written.
    """
    final = folder / f"round-{checkpoint.round:06d}"
    temporary = folder / f".{final.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        _write(temporary, checkpoint, key)
        shutil.rmtree(final, ignore_errors=True)  # of a run that was rolled back
        os.replace(temporary, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        before = latest_checkpoint(folder)
        kept = f"; {before} is intact" if before is not None else ""
        raise RunError(f"cannot write the checkpoint {final}: {reason}{kept}") from error
    for old in _all(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint in `folder`."""
    return next(reversed(_all(folder)), None)


def _all(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("round-*") if path.is_dir() and re.fullmatch(r"round-\d{6,}", path.name)]
    return sorted(found, key=round_of)


def round_of(path: Path) -> int:
    """Return the round after which a checkpoint was written."""
    return int(path.name.removeprefix("round-"))


def load_checkpoint(path: Path, *, key: str) -> Checkpoint:
    """Read a checkpoint of the run `key`.

    Raises:
        ConfigError: for one that is damaged, or of another run.
    """
    try:
        text = (path / FILE).read_bytes()
        about = json.loads(text)
        if about.pop("digest") != _digest_of(about):
            raise ValueError(f"{FILE} was changed")
        for name, digest in about["files"].items():
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != digest:
                raise ValueError(f"{name} was changed")
        if about["format"] != FORMAT:
            raise ValueError(f"it has format {about['format']}, and version {__version__} reads {FORMAT}")
        if about["run"] != key:
            raise ConfigError(f"the checkpoint {path} belongs to another run: configuration or data differ")
        return _read(path, about)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"the checkpoint {path} is damaged ({error}); delete it to go on from the one before it, if there is one"
        ) from error


def _write(folder: Path, checkpoint: Checkpoint, key: str) -> None:
    best = checkpoint.forecast or (0, {})
    parts = {
        "server": checkpoint.server,
        "public": checkpoint.public,
        "clients": {str(client): state for client, state in checkpoint.clients.items()},
        "matrices": {each.name: torch.from_numpy(each.values) for each in checkpoint.matrices},
        "forecast": {name: torch.from_numpy(curves) for name, curves in best[1].items()},
    }
    trees, files = {}, {}
    for name, tree in parts.items():
        writer = _Writer()
        trees[name] = writer.described(tree, "")
        if writer.tensors:
            save_file(writer.tensors, folder / f"{name}.safetensors")
            files[f"{name}.safetensors"] = hashlib.sha256((folder / f"{name}.safetensors").read_bytes()).hexdigest()
    matrices = {each.name: {"round": each.round, "clients": each.clients} for each in checkpoint.matrices}
    about = {"format": FORMAT, "version": __version__, "run": key, "round": checkpoint.round, "files": files}
    about |= {"trees": trees, "matrices": matrices, "forecast_round": best[0]}
    about |= {"tables": {name: [extent.rows, extent.columns] for name, extent in checkpoint.tables.items()}}
    text = json.dumps(about | {"digest": _digest_of(about)})
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def _digest_of(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _read(path: Path, about: dict[str, Any]) -> Checkpoint:
    def tree(name: str) -> Tree:
        file = path / f"{name}.safetensors"
        # A copy each, where torch puts a tensor: sums of numbers that lie otherwise come out otherwise in the last bit.
        tensors = {key: leaf.clone() for key, leaf in load_file(file).items()} if file.name in about["files"] else {}
        return _rebuilt(about["trees"][name], tensors)

    values = tree("matrices")
    curves = {name: leaf.numpy() for name, leaf in tree("forecast").items()}
    if about["round"] != round_of(path):
        raise ValueError(f"it is of round {about['round']}")
    return Checkpoint(
        round=round_of(path),
        server=tree("server"),
        public=tree("public"),
        clients={int(client): state for client, state in tree("clients").items()},
        matrices=[
            ClientMatrix(name=name, round=each["round"], clients=tuple(each["clients"]), values=values[name].numpy())
            for name, each in about["matrices"].items()
        ],
        forecast=(int(about["forecast_round"]), curves) if curves else None,
        tables={name: Extent(rows, tuple(columns)) for name, (rows, columns) in about["tables"].items()},
    )


@dataclass
class _Writer:
    """Collects the tensors of a tree by path, and describes the tree for JSON."""

    tensors: dict[str, Tensor] = field(default_factory=dict)

    def described(self, tree: Tree, path: str) -> Any:
        if tree is None:
            return None
        if isinstance(tree, SpreadRows):
            return {"clients": tree.clients, "rows": self.described(tree.rows, path)}
        if isinstance(tree, dict):
            return {"tree": {key: self.described(value, f"{path}/{key}".strip("/")) for key, value in tree.items()}}
        if isinstance(tree, list):
            return {"list": [self.described(part, f"{path}/{place}") for place, part in enumerate(tree)]}
        if not isinstance(tree, Tensor):
            raise TypeError(f"{path} in a state is a {type(tree).__name__}, but only tensors are kept")
        # On memory of its own: clients that have not trained yet share the weights they received.
        self.tensors[path] = tree.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": path}


def _rebuilt(about: Any, tensors: Mapping[str, Tensor]) -> Tree:
    if about is None:
        return None
    if "tensor" in about:
        return tensors[about["tensor"]]
    if "tree" in about:
        return {key: _rebuilt(value, tensors) for key, value in about["tree"].items()}
    if "list" in about:
        return [_rebuilt(part, tensors) for part in about["list"]]
    return SpreadRows(tuple(about["clients"]), _rebuilt(about["rows"], tensors))
