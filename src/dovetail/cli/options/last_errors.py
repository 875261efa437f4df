"""The last error of each configured server, which `dovetail host` and `servers --check` keep for `dovetail servers`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

import msgspec

from dovetail.policy.user_file import UserFile
from dovetail.protocol.errors import LocalError
from dovetail.text.redact import redact_text
from dovetail.userdata.folders import user_folder

if TYPE_CHECKING:
    from dovetail.host.events import HostEvent

_MAX_SERVERS = 200
_MAX_CHARACTERS = 2_000


class ServerError(msgspec.Struct, frozen=True):
    """An error of a server, and when it happened in seconds since the epoch."""

    error: str
    at: float


class LastErrors:
    """Errors by the name of the server; a server that starts has none any more.

    A file that cannot be written is no reason to stop a host, so it is left as it is.
    """

    def __init__(self) -> None:
        kind = dict[str, ServerError]
        self._file = UserFile[dict[str, ServerError]](user_folder() / "last_errors.json", kind, {})
        # One thread: the file is locked and written in the order of the events, and not on the event loop.
        self._writer = ThreadPoolExecutor(1, "last-errors")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown()

    def read(self) -> dict[str, ServerError]:
        """All errors; none if the file cannot be read."""
        try:
            return self._file.read()
        except LocalError:
            return {}

    def on_event(self, event: HostEvent) -> None:
        """Keep the error of a server that does not run, and drop that of one that is ready."""
        from dovetail.host.events import ServerStatus

        status = event.detail
        if not isinstance(status, ServerStatus):
            return
        if status.state == "ready":
            self.set(status.key, None)
        elif status.state in ("failed", "waiting") and status.error:
            self.set(status.key, status.error)

    def set(self, server: str, error: str | None) -> None:
        """Keep the error of a server, or with None drop it."""
        entry = None if error is None else ServerError(redact_text(error)[:_MAX_CHARACTERS], time.time())
        self._writer.submit(self._set, server, entry)

    def _set(self, server: str, entry: ServerError | None) -> None:
        if entry is None and server not in self.read():
            return

        def change(errors: dict[str, ServerError]) -> dict[str, ServerError]:
            kept = {name: each for name, each in errors.items() if name != server}
            newest = sorted(kept, key=lambda name: kept[name].at)[-_MAX_SERVERS + 1 :]
            return {name: kept[name] for name in newest} | ({} if entry is None else {server: entry})

        try:
            self._file.change(change)
        except LocalError:
            return
