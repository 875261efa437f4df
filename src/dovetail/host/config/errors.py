"""A configuration file that cannot be used, and who is told where."""

from __future__ import annotations

from dovetail.host.entries import Origin
from dovetail.protocol.errors import LocalError


class BadConfig(LocalError):
    """A whole file cannot be used; `origin` is the file and the line."""

    def __init__(self, message: str, origin: Origin) -> None:
        super().__init__(f"{origin}: {message}")
        self.origin = origin
