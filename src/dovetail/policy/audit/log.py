"""The record of what was decided and done: append-only, chained and sealed, written by several programs at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from dovetail.policy.known_secrets import KnownSecrets
from dovetail.protocol.errors import Refused
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import FileUnusable

from .chain import AuditRecord
from .files import AuditFiles, make_key, now
from .redact_record import RecordRedactor

FILE = "audit.jsonl"
KEY_FILE = "audit.key"

AuditEvent: TypeAlias = Literal[
    "call",
    "result",
    "question",
    "answer",
    "refusal",
    "launch",
    "sampling",
    "elicitation",
    "roots",
    "definition",
    "config",
]
"""What a record is about."""

Decider: TypeAlias = Literal["policy", "person", "nobody"]


class Unrecorded(Refused):
    """Something must not be done, because it cannot be recorded."""


class Audit:
    """A record in a file.

    A record that was written is in the hands of the operating system: it outlives the program at once, and a loss of
    power once the system, or `close`, has put it on the disk. The key of the seals is `audit.key` in the user's folder.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, folder: Path | None = None) -> None:
        home = folder or user_folder()
        self.path = home / FILE if path is None else Path(path)
        self.key_path = home / KEY_FILE
        self._turn = threading.Lock()
        self._files: AuditFiles | None = None
        self._secrets = KnownSecrets()

    def write(
        self,
        event: AuditEvent,
        *,
        server: str = "",
        name: str = "",
        by: Decider | None = None,
        rule: str = "",
        definition: str | None = None,
        **details: Any,
    ) -> None:
        """Add a record; raises `Unrecorded` if that cannot be done, and then what was to be recorded must not happen.

        `details` are recorded without secrets, and long values are cut.
        """
        fit = RecordRedactor(self._secrets)
        try:
            with self._turn:
                files = self._opened()
                with files.locked():
                    files.append(
                        AuditRecord(
                            n=files.head.count,
                            at=now(),
                            event=event,
                            server=fit.text(server),
                            name=fit.text(name),
                            by=by,
                            rule=fit.text(rule),
                            definition=definition,
                            details=fit.value(details),
                        )
                    )
        except (OSError, FileUnusable) as problem:
            raise Unrecorded(f"Nothing was done, because it cannot be recorded in {self.path}: {problem}") from problem

    def hide(self, values: Iterable[str | None]) -> None:
        """Keep secrets out of all further records, whatever they look like; what is too short to be one is let be."""
        self._secrets.add(values)

    def close(self) -> None:
        """Put everything on the disk and let go of the file; writing opens it again."""
        with self._turn:
            files, self._files = self._files, None
            if files is not None:
                files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> AuditFiles:
        if self._files is not None and not self._files.are_at(self.path):  # moved away, so that a new one begins
            self._files.close()
            self._files = None
        if self._files is None:
            self._files = AuditFiles(self.path, make_key(self.key_path))
        return self._files
