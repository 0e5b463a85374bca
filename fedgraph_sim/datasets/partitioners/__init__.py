"""Ways to divide one graph among clients."""
