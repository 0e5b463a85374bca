"""Counts in words."""


def counted(number: int, noun: str) -> str:
    """Return ``1 client``, ``2 clients``, ``3 classes``."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
