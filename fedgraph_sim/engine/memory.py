"""How this process gets and gives back memory."""

import ctypes
import resource
import sys

_MMAP_MAX, _TRIM_THRESHOLD, _TOP_PAD = -4, -1, -2  # names of glibc's malloc.h


def keep_large_blocks() -> None:
    """Make the C allocator keep large blocks instead of returning them to the system after each use.

    A round allocates the same tensors of many megabytes again and again; by default each of them is mapped, filled with
    zeros page by page, and unmapped, which takes more time than the computation. Without glibc nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 64 * 2**20)


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
