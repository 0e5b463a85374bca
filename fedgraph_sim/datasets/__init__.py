"""Graphs, splits, partitioners and the partition store; NumPy, SciPy and Arrow only, so that it imports fast."""
