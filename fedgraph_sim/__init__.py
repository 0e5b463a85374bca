"""fedgraph-sim: a Ray-based simulation engine for federated graph learning.

``from fedgraph_sim import run, RunConfig, load_run``: what they need is imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgraph_sim.api import run
    from fedgraph_sim.engine.config import RunConfig
    from fedgraph_sim.results.run_folder import RunFolder, load_run

__version__ = "0.1.0"
__all__ = ["RunConfig", "RunFolder", "__version__", "load_run", "run"]

_MODULES = {
    "run": "fedgraph_sim.api",
    "RunConfig": "fedgraph_sim.engine.config",
    "RunFolder": "fedgraph_sim.results.run_folder",
    "load_run": "fedgraph_sim.results.run_folder",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
