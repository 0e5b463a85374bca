"""fedgraph-sim: a Ray-based simulation engine for federated graph learning."""

__version__ = "0.1.0"
