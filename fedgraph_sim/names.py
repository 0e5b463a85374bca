"""Names that a user may write: those that the package knows, and ``module:Class`` for the user's own."""

import os
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

from fedgraph_sim.errors import ConfigError

Model = TypeVar("Model")


def find(kind: str, name: Any, known: Iterable[str]) -> str:
    """Return the known name that equals `name`, upper or lower case; else a ConfigError with the nearest one."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    folded = str(name).lower()
    if folded in by_folded:
        return by_folded[folded]
    near = get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    hint = f"did you mean {by_folded[near[0]]}?" if near else f"known are {', '.join(by_folded.values())}"
    raise ConfigError(f"{kind}={name} is not known; {hint}")


def find_class(kind: str, name: Any, known: Mapping[str, type[Model]], base: type[Model]) -> tuple[str, type[Model]]:
    """Return the known name that equals `name` and its class, or ``module:Class`` as it is and the class of the user.

    The module is looked for as by ``import``, in the current folder first.

    Raises:
        ConfigError: where there is no such name, or the class is not derived from `base`.
    """
    if ":" not in str(name):
        found = find(kind, name, known)
        return found, known[found]
    module, _, attribute = str(name).partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # Ray's workers get the path from this process
    try:
        model = getattr(import_module(module), attribute)
    except Exception as error:  # the user's code may fail in any way
        raise ConfigError(f"{kind}={name} cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(model, type) and issubclass(model, base)):
        raise ConfigError(f"{kind}={name} is not a class derived from {base.__module__}.{base.__name__}")
    return str(name), model
