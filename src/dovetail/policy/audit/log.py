"""Audit log: decisions and what came of them; append-only, chained and sealed, written by several processes at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from dovetail.policy.known_secrets import KnownSecrets
from dovetail.protocol.errors import Refused
from dovetail.types.bounded_dict import BoundedDict
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import FileUnusable

from .chain import add_details, encode_fields
from .files import AuditFiles, SeenLog, make_key
from .group_commit import GroupCommit
from .redact_record import RecordRedactor

FILE = "audit.jsonl"
KEY_FILE = "audit.key"
MAX_FIELDS = 1_000
"""Servers, names and rules of records whose redacted form is remembered."""
MAX_FIELDS_TEXT = 2_000
"""Characters of all of them in one record; longer ones are redacted each time."""

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
    "task",
    "account",
]
"""The subject of a record."""

Decider: TypeAlias = Literal["policy", "person", "nobody"]

_Fields: TypeAlias = "tuple[AuditEvent, str, str, Decider | None, str, str | None]"
"""Event, server, name, decider, rule and definition of a record."""


class Unrecorded(Refused):
    """An action is refused because it cannot be written to the audit log."""


class Audit:
    """An audit log in a file.

    A record that was written is in the hands of the operating system: it outlives the process at once, and a loss of
    power once the system, or `close`, has put it on the disk. The key of the seals is `audit.key` in the user's folder.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, folder: Path | None = None) -> None:
        home = folder or user_folder()
        self.path = home / FILE if path is None else Path(path)
        self.key_path = home / KEY_FILE
        self._files: AuditFiles | None = None
        self._seen: SeenLog | None = None
        """The log when it was last open: it must not be shorter when it is opened again."""
        self._secrets = KnownSecrets()
        self._known_fields = BoundedDict[_Fields, tuple[bytes, int]](MAX_FIELDS)
        """The JSON of fields without secrets, and how many characters it has used up of a record's total."""
        self._commits = GroupCommit(self._commit, self._try_commit, "dovetail-audit")

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
        """Append a record; `Unrecorded` if that cannot be done, and then the action must not happen.

        `details` are written without secrets, and long values are cut. It waits for the disk and for other processes:
        on an event loop use `record`.
        """
        self._commits.write(self._encode(event, server, name, by, rule, definition, details))

    async def record(
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
        """Append a record as `write` does, without blocking the event loop.

        Where another process holds the lock, or the disk is slow, a thread waits for it, and writes what has
        collected meanwhile in one go. A record that waits is written even if the task that waits for it is cancelled.
        """
        await self._commits.write_async(self._encode(event, server, name, by, rule, definition, details))

    def record_soon(
        self,
        on_failure: Callable[[Exception], None],
        event: AuditEvent,
        *,
        server: str = "",
        name: str = "",
        by: Decider | None = None,
        rule: str = "",
        definition: str | None = None,
        **details: Any,
    ) -> None:
        """Append a record of something that has happened, without waiting for it.

        It is written together with the next record, or in the next turn of the event loop, which must be running.
        Where that fails `on_failure` gets the `Unrecorded`, perhaps in another thread.
        """

        def on_written(problem: Exception | None) -> None:
            if problem is not None:
                on_failure(problem)

        self._commits.write_soon(self._encode(event, server, name, by, rule, definition, details), on_written)

    def flush(self) -> None:
        """Write what is queued; it may wait."""
        with self._commits.drained():
            pass

    def hide(self, values: Iterable[str | None]) -> None:
        """Redact these values in all further records, whatever they look like; what is too short to be one stays."""
        self._secrets.add(values)
        self._known_fields.clear()

    def cover(self, text: str) -> str:
        """The text without the values that are hidden."""
        return self._secrets.cover(text)

    def close(self) -> None:
        """Write what is queued, put everything on the disk and close the file; writing opens it again."""
        with self._commits.drained():
            if self._files is not None:
                self._close_files(self._files)
        self._commits.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encode(
        self,
        event: AuditEvent,
        server: str,
        name: str,
        by: Decider | None,
        rule: str,
        definition: str | None,
        details: dict[str, Any],
    ) -> bytes:
        redactor = RecordRedactor(self._secrets)
        # Calls of one tool differ in their details only.
        key = (event, server, name, by, rule, definition)
        known = self._known_fields.get(key)
        if known is None:
            fields = encode_fields(
                event,
                server=redactor.text(server),
                name=redactor.text(name),
                by=by,
                rule=redactor.text(rule),
                definition=definition,
            )
            if len(server) + len(name) + len(rule) <= MAX_FIELDS_TEXT:
                self._known_fields[key] = (fields, redactor.characters_used)
        else:
            fields = known[0]
            redactor.characters_used = known[1]
        return add_details(fields, redactor.value(details))

    def _commit(self, entries: Sequence[bytes]) -> None:
        try:
            files = self._opened()
            with files.locked():
                files.append(entries)
        except (OSError, FileUnusable) as problem:
            raise self._unrecorded(problem) from problem

    def _try_commit(self, entries: Sequence[bytes]) -> bool:
        files = self._files
        try:
            # Opening files and taking up what another process left behind is for the thread.
            if files is None or not files.are_in_place or not files.try_lock():
                return False
            try:
                files.append(entries)
            finally:
                files.unlock()
        except (OSError, FileUnusable) as problem:
            raise self._unrecorded(problem) from problem
        return True

    def _close_files(self, files: AuditFiles) -> None:
        self._files, self._seen = None, files.seen
        files.close()

    def _unrecorded(self, problem: Exception) -> Unrecorded:
        return Unrecorded(f"Nothing was done, because it cannot be recorded in {self.path}: {problem}")

    def _opened(self) -> AuditFiles:
        if self._files is not None and not self._files.are_in_place:  # moved away, so that a new log begins
            self._close_files(self._files)
        if self._files is None:
            self._files = AuditFiles(self.path, make_key(self.key_path), self._seen)
        return self._files
