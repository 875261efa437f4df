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

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class AuditFiles:
    """Both files of a log, and its end as this process last saw it."""

    def __init__(self, path: Path, key: bytes) -> None:
        private_folder(path.parent)
        self._path = path
        self._name = str(path)
        self._key = key
        self.head = AuditHead(0, 0, START)
        self._written: bytes = b""
        self._log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o600)
        status = os.fstat(self._log)
        self._identity = (status.st_dev, status.st_ino)
        try:
            self._head = os.open(head_path(path), os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        except BaseException:
            os.close(self._log)
            raise

    @property
    def are_in_place(self) -> bool:
        """True if the log is still where it was opened, and not moved away so that a new one begins."""
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

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
        self.head, self._written = head, content

    def _catch_up(self) -> None:
        """See how far the record goes now, and refuse to add to one that is not whole."""
        content, size = self._read_head(), os.fstat(self._log).st_size
        if content and content == self._written and size == self.head.size:
            return
        if content:
            head = decode_head(content, self._key)
            if head is None:
                raise _Tampered("its head was not written with this key")
        else:
            head = AuditHead(0, 0, START)
        if size < head.size:
            raise _Tampered("its end is missing")
        if head.size and _tail_hash(self._log, head.size) != head.hash:
            raise _Tampered("its end is not what it was")
        self.head, self._written = head, content
        if size > head.size:
            self._recover(size)
        if self.head.count == 0:
            self._open()

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
        details = {"log": secrets.token_hex(16), "kept_at": str(self._path.absolute())}
        self.append([encode_entry(OPENING, details=details)])


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
