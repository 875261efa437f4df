"""Writing what a person wants to keep."""

from __future__ import annotations

import os
from pathlib import Path

from dovetail.protocol.errors import LocalError


def new_file(name: str, content: bytes) -> Path:
    """Write a file that is not there yet, for its owner alone: what went by may be nobody else's business."""
    path = Path(name).expanduser()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    except FileExistsError:
        raise LocalError(f"{path} is there already, and stays as it is; name another file") from None
    except OSError as problem:
        raise LocalError(f"{path} cannot be written: {problem.strerror}") from None
    return path
