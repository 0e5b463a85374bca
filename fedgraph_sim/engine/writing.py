"""One run at a time writes to a folder: a lock that ends with the process that holds it, however it ends."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from fedgraph_sim.engine.files import CONFIG_FILE
from fedgraph_sim.errors import ConfigError


class Writing:
    """The right to write to a run's folder: a lock on its config file.

    `joins` takes part in the right that another process of the same run has: its coordinator outlives the command.

    Raises:
        ConfigError: where another run has it.
    """

    def __init__(self, folder: Path, *, joins: bool = False) -> None:
        self._file = os.open(folder / CONFIG_FILE, os.O_RDONLY)
        try:
            # Alone first, so that no other run has it; then shared, so that others can join.
            for kind in (fcntl.LOCK_SH,) if joins else (fcntl.LOCK_EX, fcntl.LOCK_SH):
                fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            self.end()
            raise ConfigError(
                f"another process is writing to {folder}; stop that run first, or choose another --name"
            ) from None
        except OSError:  # a file system without locks
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let others write."""
        with suppress(OSError):
            os.close(self._file)
        self._file = -1
