"""A folder as text, so that it comes back through a job's log: the one thing that every Ray head hands out.

``python -m fedgraph_sim.remote.parcel FOLDER`` prints one.
"""

import base64
import hashlib
import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from fedgraph_sim.errors import RunError

BEGIN, END = "-----BEGIN FOLDER-----", "-----END FOLDER-----"
MAX_PARCEL = 500 * 10**6
"""Bytes of a folder that go through a log."""
LINE = 3 * 2**14


def pack(folder: Path) -> str:
    """Return `folder` as text. Raises `RunError` where it is not there or too large."""
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder} on the head")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MAX_PARCEL:
        raise RunError(f"{folder} has {size / 1e6:.0f} MB, more than comes back this way; copy it from the head")
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", compression=ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    content = buffer.getvalue()
    lines = [base64.b64encode(content[at : at + LINE]).decode() for at in range(0, len(content), LINE)]
    return "\n".join([BEGIN, hashlib.sha256(content).hexdigest(), *lines, END])


def unpack(text: str, folder: Path) -> None:
    """Write the folder in `text`, which may have other lines around it, to `folder`, which is complete or absent.

    Raises `RunError` where the text does not hold a whole one.
    """
    _, begin, rest = text.partition(f"{BEGIN}\n")
    body, end, _ = rest.partition(f"\n{END}")
    digest, *lines = body.split("\n")
    try:
        content = b"".join(map(base64.b64decode, lines)) if begin and end else b""
    except ValueError:  # of base64
        content = b""
    if not content or hashlib.sha256(content).hexdigest() != digest:
        raise RunError("the folder did not come back whole", text[-2000:] if not begin else "")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        whole = Path(temporary) / folder.name
        whole.mkdir()
        with ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(whole)
        whole.rename(folder)


def main() -> None:
    """Print the folder that is named on the command line."""
    try:
        sys.stdout.write(pack(Path(sys.argv[1]).expanduser()) + "\n")
    except RunError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
