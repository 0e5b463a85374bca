"""The two ways in which a run can end badly."""


class ConfigError(ValueError):
    """The user's input cannot be used; the message names the key, the value and the way out (exit code 2)."""


class RunError(RuntimeError):
    """A run started and failed; the message names the client, round and step (exit code 1)."""
