"""Connecting to Ray: a cluster that is there, or one of our own on this machine."""

import os
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fedgraph_sim.engine.placement import Node
from fedgraph_sim.errors import ConfigError, RunError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOT_FOUND = (
    "no token was found in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token; "
    "a cluster with token authentication needs the one from its head (`ray get-auth-token` there)"
)


def connect(address: str | None = None, **options: Any) -> list[Node]:
    """Connect this process to Ray and return the machines of its cluster, this one first.

    A connection that this process already has is used; else the cluster at `address` or RAY_ADDRESS; else a cluster on
    this machine alone is started, which ends with the process and listens on the loopback interface only. `options` are
    those of ``ray.init`` for a cluster that is there.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not sys.stderr.isatty():
        os.environ.setdefault("RAY_COLOR_PREFIX", "0")  # of what actors print
    address = address or os.environ.get("RAY_ADDRESS")
    if address == "auto":
        address = latest_cluster()
    if address is None or urlsplit(_url(address)).hostname in LOOPBACK:
        # Read when Ray is imported: without it Ray takes 127.0.0.1 for the address to other machines, on Linux, too.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if address is None:
        options = {"include_dashboard": False}
        # Nobody looks at a record of every call, which grows with the rounds and takes its time.
        os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    else:
        check_reachable(address)
        _authenticate(address)
    ray = import_module("ray")
    if not ray.is_initialized():
        try:
            ray.init(address=address or "local", logging_level="ERROR", **options)
        except Exception as error:  # Ray raises of all kinds, the plainest where its own processes are late
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            if address is None:
                hint = "free CPUs and memory, or run with --inline"
                raise RunError(f"Ray did not start on this machine: {reason}; {hint}") from error
            raise ConfigError(f"cannot connect to Ray at {address}: {reason}") from error
    here = ray.get_runtime_context().get_node_id()
    alive = [node for node in ray.nodes() if node["Alive"]]
    return [_node(node) for node in sorted(alive, key=lambda node: node["NodeID"] != here)]


def latest_cluster() -> str:
    """Return the address of the cluster that was started last on this machine, where `ray start` leaves it."""
    named = os.environ.get("RAY_TMPDIR") or (os.environ.get("TMPDIR") if sys.platform == "linux" else None)
    folder = named or "/tmp"  # noqa: S108  # Ray's own choice
    try:
        return Path(folder, "ray", "ray_current_cluster").read_text(encoding="utf-8").strip()
    except OSError:
        raise ConfigError(
            "address=auto finds no cluster on this machine; start one with `ray start`, or give its address"
        ) from None


def has_token() -> bool:
    """Tell whether there is a token where Ray looks for it."""
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or file.is_file()


def _authenticate(address: str) -> None:
    """Let Ray, which must not be imported yet, show the user's token to a cluster that wants one, and to no other.

    Ray itself does so only if RAY_AUTH_MODE says it, and otherwise waits minutes for an answer; where the cluster wants
    no token, its processes cannot answer those of a user who does.
    """
    parts = urlsplit(_url(address))
    if "RAY_AUTH_MODE" in os.environ or parts.port is None:
        return
    grpc = import_module("grpc")
    harmless = "RayletDriver/ClusterInfo" if address.startswith("ray://") else "NodeInfoGcsService/CheckAlive"
    try:
        with grpc.insecure_channel(f"{parts.hostname}:{parts.port}") as channel:
            channel.unary_unary(f"/ray.rpc.{harmless}")(b"", timeout=10)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            if not has_token():
                raise ConfigError(f"the Ray cluster {address} wants a token, and {NOT_FOUND}") from None
            os.environ["RAY_AUTH_MODE"] = "token"


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


def _url(address: str) -> str:
    return address if "://" in address else f"ray://{address}"


def check_reachable(address: str) -> None:
    """Refuse a host and port where nobody listens: Ray itself would try for minutes, or for ever."""
    try:
        parts = urlsplit(_url(address))
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the Ray cluster {address} does not answer ({error}); start it, or give another") from error
