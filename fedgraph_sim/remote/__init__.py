"""Runs on a cluster that this machine is no part of: what travels there, what is asked there, and what comes back."""
