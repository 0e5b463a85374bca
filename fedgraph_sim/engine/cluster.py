"""Connecting to Ray: a cluster that is there, or one of our own on this machine."""

import os
import socket
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fedgraph_sim.engine.placement import Node
from fedgraph_sim.errors import ConfigError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOT_FOUND = (
    "no token was found in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token; "
    "a cluster with token authentication needs the one from its head (`ray get-auth-token` there)"
)


def connect(address: str | None = None, **options: Any) -> list[Node]:
    """Connect this process to Ray and return the machines of its cluster.

    A connection that this process already has is used; else the cluster at `address` or RAY_ADDRESS; else a cluster on
    this machine alone is started, which ends with the process and listens on the loopback interface only. `options` are
    those of ``ray.init`` for a cluster that is there.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS")
    if address is None or _host(address) in LOOPBACK:
        # Read when Ray is imported: without it Ray takes 127.0.0.1 for the address to other machines, on Linux, too.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if address is None:
        options = {"include_dashboard": False}
    else:
        use_token()
    ray = import_module("ray")
    if not ray.is_initialized():
        check_reachable(address or "")
        try:
            ray.init(address=address or "local", logging_level="ERROR", **options)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.AuthenticationError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            hint = "" if use_token() else f"; {NOT_FOUND}"
            raise ConfigError(f"cannot connect to Ray at {address}: {reason}{hint}") from error
    return [_node(node) for node in ray.nodes() if node["Alive"]]


def use_token() -> bool:
    """Let Ray, which must not be imported yet, use the user's token; tell whether there is one where Ray looks for it.

    Ray itself looks for it only if RAY_AUTH_MODE says so, and otherwise waits for minutes for a cluster's answer.
    """
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    found = bool(os.environ.get("RAY_AUTH_TOKEN")) or file.is_file()
    if found:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    return found


def this_node() -> Node:
    """Return what Ray reports of the machine of this process, which is connected."""
    ray = import_module("ray")
    here = ray.get_runtime_context().get_node_id()
    return next(_node(node) for node in ray.nodes() if node["NodeID"] == here)


def _node(node: dict[str, Any]) -> Node:
    resources = node["Resources"]
    return Node(
        id=node["NodeID"],
        host=node["NodeManagerHostname"],
        cpus=resources.get("CPU", 0.0),
        gpus=resources.get("GPU", 0.0),
        memory=resources.get("memory", 0.0),
        object_store=resources.get("object_store_memory", 0.0),
    )


def _host(address: str) -> str | None:
    return urlsplit(address if "://" in address else f"ray://{address}").hostname


def check_reachable(address: str) -> None:
    """Refuse a host and port where nobody listens: Ray itself would try for minutes, or for ever."""
    try:
        parts = urlsplit(address if "://" in address else f"ray://{address}")
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the Ray cluster {address} does not answer ({error}); start it, or give another") from error
