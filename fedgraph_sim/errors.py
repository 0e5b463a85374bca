"""The two ways in which a run can end badly."""


class ConfigError(ValueError):
    """The user's input cannot be used; the message names the key, the value and the way out (exit code 2)."""


class RunError(RuntimeError):
    """A run started and failed (exit code 1); `details` holds a remote traceback where there is one."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details
