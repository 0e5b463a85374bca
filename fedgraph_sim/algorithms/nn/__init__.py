"""Models, optimisers and losses as pure functions of weights, shared by the algorithms."""
