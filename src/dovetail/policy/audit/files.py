"""Open files of an audit log: the lines, and the head with their number, size and last hash."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import time
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from dovetail.userdata.private_file import (
    FileUnusable,
    acquire_lock,
    check_only_owner_writes,
    create_private,
    private_folder,
    read_file,
    release_lock,
    try_lock,
)

from .chain import (
    HEAD_BYTES,
    START,
    TAIL_BYTES,
    AuditHead,
    decode_head,
    encode_entry,
    encode_head,
    encode_line,
    link_hash,
    seal,
    split_line,
)

OPENING = "open"
PATIENCE = 2.0
"""Seconds to wait for another program that is writing: each does so for some microseconds."""

MAX_OPENING = 16_384
"""Bytes of the first line: a path and a random number."""

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class SeenLog(NamedTuple):
    """A log as this process last saw it; it must not become shorter."""

    opening: str
    """Hash of record 0, which tells one log from another at the same path."""
    head: AuditHead


class AuditFiles:
    """Both files of a log, and its end as this process last saw it.

    `seen` is what the process knows of the log from an earlier time that it was open.
    """

    def __init__(self, path: Path, key: bytes, seen: SeenLog | None = None) -> None:
        private_folder(path.parent)
        self.seen = seen
        self._path = path
        self._name = str(path)
        self._head_name = str(head_path(path))
        self._key = key
        self.head = AuditHead(0, 0, START)
        self._written: bytes = b""
        self._log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o600)
        self._identity = _identity(os.fstat(self._log))
        try:
            self._head = os.open(head_path(path), os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
            self._head_identity = _identity(os.fstat(self._head))
        except BaseException:
            os.close(self._log)
            raise

    @property
    def are_in_place(self) -> bool:
        """True if both files are still where they were opened, and not moved away so that a new log begins."""
        try:
            return (
                _identity(os.stat(self._name)) == self._identity
                and _identity(os.stat(self._head_name)) == self._head_identity
            )
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """While it lasts no other program writes, and it is known how far the record goes."""
        acquire_lock(self._log, self._path, PATIENCE)
        try:
            self._catch_up()
            yield
        finally:
            release_lock(self._log)

    def try_lock(self) -> bool:
        """Lock the log if no other process has it and nobody has written to it since; whether it is locked."""
        if not try_lock(self._log):
            return False
        if self._is_unchanged():
            return True
        release_lock(self._log)
        return False

    def unlock(self) -> None:
        """Release the lock."""
        release_lock(self._log)

    def append(self, entries: Sequence[bytes]) -> None:
        """Write a line for each entry (`encode_entry`) and the new head, or nothing."""
        at, digest, lines = now(), self.head.hash, list[bytes]()
        for number, entry in enumerate(entries, self.head.count):
            line, digest = encode_line(number, at, entry, digest, self._key)
            lines.append(line)
        content = b"".join(lines)
        head = AuditHead(self.head.count + len(lines), self.head.size + len(content), digest)
        try:
            if os.write(self._log, content) != len(content):
                raise OSError("the disk is full")
            self._write_head(head)
        except OSError:
            os.ftruncate(self._log, self.head.size)
            raise

    def close(self) -> None:
        """Put both files on the disk and close them."""
        try:
            os.fsync(self._log)
            os.fsync(self._head)
        finally:
            os.close(self._log)
            os.close(self._head)

    def _is_unchanged(self) -> bool:
        return os.fstat(self._log).st_size == self.head.size and self._read_head() == self._written != b""

    def _read_head(self) -> bytes:
        os.lseek(self._head, 0, os.SEEK_SET)
        return os.read(self._head, HEAD_BYTES + 1)

    def _write_head(self, head: AuditHead) -> None:
        content = encode_head(head, self._key)
        os.lseek(self._head, 0, os.SEEK_SET)
        if os.write(self._head, content) != len(content):
            raise OSError("the head of the record cannot be written")
        self._remember(head, content)

    def _remember(self, head: AuditHead, content: bytes) -> None:
        self.head, self._written = head, content
        if self.seen is not None:
            self.seen = SeenLog(self.seen.opening, head)

    def _catch_up(self) -> None:
        """See how far the record goes now, and refuse to add to one that is not whole."""
        content, size = self._read_head(), os.fstat(self._log).st_size
        if content and content == self._written and size == self.head.size:
            return
        if not content and size:
            # The head of a new log is written before its first line, so a log never is without one.
            raise _Tampered("its head is missing")
        head = decode_head(content, self._key) if content else AuditHead(0, 0, START)
        if head is None:
            raise _Tampered("its head was not written with this key")
        is_new = size == 0 and head.count <= 1
        if is_new and not self._written:
            self._open()
            return
        if size < head.size:
            raise _Tampered("its end is missing")
        if head.size and _tail_hash(self._log, head.size) != head.hash:
            raise _Tampered("its end is not what it was")
        self._check_seen(size)
        self._remember(head, content)
        if size > head.size:
            self._recover(size)

    def _check_seen(self, size: int) -> None:
        """Refuse a log that lacks something that this process has seen in it; both files may be older copies."""
        opening = _opening_hash(self._log)
        seen = self.seen
        # Another file with another first record is a new log: somebody has moved the old one away.
        if (
            seen is not None
            and (seen.opening == opening or self._written)
            and (size < seen.head.size or _tail_hash(self._log, seen.head.size) != seen.head.hash)
        ):
            raise _Tampered("records that this program has written are missing")
        self.seen = SeenLog(opening, self.head)

    def _recover(self, size: int) -> None:
        """Recover the lines of a program that was killed before it could write the head."""
        os.lseek(self._log, self.head.size, os.SEEK_SET)
        whole, _, torn = os.read(self._log, size - self.head.size).rpartition(b"\n")
        head = self.head
        for line in whole.splitlines(keepends=True) if whole else ():
            chained = split_line(line if line.endswith(b"\n") else line + b"\n")
            if (
                chained is None
                or chained.hash != link_hash(head.hash, chained.body)
                or chained.seal != seal(self._key, chained.hash)
            ):
                raise _Tampered("something was added to it that Dovetail did not write")
            head = AuditHead(head.count + 1, head.size + len(chained.body) + TAIL_BYTES, chained.hash)
        if torn:
            os.ftruncate(self._log, head.size)
        self._write_head(head)

    def _open(self) -> None:
        """Write the first record of a new log, its head first.

        A kill in between leaves an empty log, which is begun anew. The other way round it would leave a log without a
        head, as an attacker does who cuts off its end.
        """
        details = {"log": secrets.token_hex(16), "kept_at": str(self._path.absolute())}
        line, digest = encode_line(0, now(), encode_entry(OPENING, details=details), START, self._key)
        head = AuditHead(1, len(line), digest)
        content = encode_head(head, self._key)
        os.lseek(self._head, 0, os.SEEK_SET)
        if os.write(self._head, content) != len(content):
            raise OSError("the head of the record cannot be written")
        if os.write(self._log, line) != len(line):
            os.ftruncate(self._log, 0)
            raise OSError("the disk is full")
        self.head, self._written, self.seen = head, content, SeenLog(digest, head)


class _Tampered(FileUnusable):
    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. See `dovetail audit verify`; to begin a new record, move this one and its .head to another place"
        )


def make_key(path: Path) -> bytes:
    """The key of the seals; of two programs that make one at once, the first one's is used by both."""
    key = read_file(path)
    if key is None:
        create_private(path, secrets.token_bytes(32))
        key = read_file(path)
    check_only_owner_writes(path)
    if key is None or len(key) != 32:
        raise FileUnusable(f"{path} holds no key")
    return key


def head_path(path: Path) -> Path:
    """The path of the head file of a log."""
    return path.with_name(f"{path.name}.head")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _opening_hash(handle: int) -> str:
    """The hash of the first line, which is short; nothing if that is none of ours."""
    os.lseek(handle, 0, os.SEEK_SET)
    line, newline, _ = os.read(handle, MAX_OPENING).partition(b"\n")
    link = split_line(line + newline)
    return "" if link is None else link.hash


def _tail_hash(handle: int, size: int) -> str | None:
    os.lseek(handle, size - TAIL_BYTES - 1, os.SEEK_SET)
    link = split_line(os.read(handle, TAIL_BYTES + 1))
    return None if link is None else link.hash


def now() -> str:
    """The time as a record has it."""
    second, fraction = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second_text(second)}.{fraction:03}+00:00"


@functools.lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
