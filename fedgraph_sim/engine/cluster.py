"""Connecting to Ray: a cluster that is there, or one of our own on this machine."""

import os
import socket
from importlib import import_module
from typing import Any

from fedgraph_sim.engine.placement import Node
from fedgraph_sim.errors import ConfigError


def connect() -> list[Node]:
    """Connect this process to Ray and return the machines of its cluster.

    A connection that this process already has is used; else the cluster that RAY_ADDRESS names; else a cluster on this
    machine alone is started, which ends with the process and listens on the loopback interface only.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS")
    if address is None:
        # Read when Ray is imported: without it a node listens on all interfaces, on Linux even if told 127.0.0.1.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = import_module("ray")
    if not ray.is_initialized():
        _check_reachable(address)
        options = {"logging_level": "ERROR", "include_dashboard": False} if address is None else {}
        try:
            ray.init(address=address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"cannot connect to Ray (RAY_ADDRESS={address}): {reason}") from error
    return [_node(node) for node in ray.nodes() if node["Alive"]]


def this_node() -> Node:
    """Return what Ray reports of the machine of this process, which is connected."""
    ray = import_module("ray")
    here = ray.get_runtime_context().get_node_id()
    return next(_node(node) for node in ray.nodes() if node["NodeID"] == here)


def _node(node: dict[str, Any]) -> Node:
    resources = node["Resources"]
    return Node(cpus=resources.get("CPU", 0.0), gpus=resources.get("GPU", 0.0), memory=resources.get("memory", 0.0))


def _check_reachable(address: str | None) -> None:
    """Refuse a HOST:PORT where nobody listens: Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if not host or "/" in host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"RAY_ADDRESS={address} does not answer ({error}); start that cluster or unset it") from error
