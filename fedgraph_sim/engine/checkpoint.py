"""Checkpoints: the server's and every client's state at the end of a round, in safetensors and JSON."""

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from fedgraph_sim.engine.tree import Tree, leaves


def save_checkpoint(folder: Path, *, round: int, server: Tree, clients: dict[int, Tree]) -> Path:
    """Write ``<folder>/round-<round>`` at once: it is complete or absent.

    ``server.safetensors`` has names such as ``weights/head.bias``, ``clients.safetensors`` the same behind the client's
    number, ``checkpoint.json`` the round.
    """
    final = folder / f"round-{round:06d}"
    temporary = folder / f".{final.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_file({path: _own_copy(leaf) for path, leaf in leaves(server)}, temporary / "server.safetensors")
    states = {f"{client}/{path}": _own_copy(leaf) for client, tree in clients.items() for path, leaf in leaves(tree)}
    save_file(states, temporary / "clients.safetensors")
    (temporary / "checkpoint.json").write_text(json.dumps({"round": round, "num_clients": len(clients)}) + "\n")
    os.replace(temporary, final)
    return final


def _own_copy(leaf: Tensor) -> Tensor:
    """Return a copy on memory of its own: clients that have not trained yet share the weights they received."""
    return leaf.clone(memory_format=torch.contiguous_format)
