"""Finding out whether a record is whole, and if not, where it was touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import FileUnusable, acquire_lock, read_file, release_lock

from .chain import START, AuditHead, AuditRecord, ChainedLine, decode_head, link_hash, read_record, seal, split_line
from .files import OPENING, head_path
from .log import FILE, KEY_FILE

MAX_LINE = 4_000_000
"""Bytes; no record is that long."""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Result of verifying an audit log."""

    records: int
    """Number of intact records, from the first on."""
    problem: str | None = None
    """The first problem, and its record; None if there is none."""
    began: str | None = None
    """Time of the first record. It is later than expected if somebody removed the log and its head, and a new one
    began: nothing in the files shows that."""

    @property
    def whole(self) -> bool:
        """True if nothing is wrong."""
        return self.problem is None


def verify(path: Path | None = None, *, folder: Path | None = None, kept_at: Path | None = None) -> Verified:
    """Check every line of a record, its seals, and that it goes as far as its head says.

    `folder` is the user's folder, with the key. `kept_at` is where it was written, for a copy that now is elsewhere.
    """
    home = folder or user_folder()
    path = path or home / FILE
    try:
        key = read_file(home / KEY_FILE)
        with path.open("rb") as log:
            if key is None:
                raise LocalError(f"There is no key {home / KEY_FILE} to check the seals of {path} with")
            # Nobody writes between the look at the head and the look at the size.
            acquire_lock(log.fileno(), path)
            size = log.seek(0, 2)
            head = read_file(head_path(path))
            release_lock(log.fileno())
            log.seek(0)
            return verify_lines(_lines(log, size), head, key, str((kept_at or path).absolute()))
    except FileNotFoundError:
        if head_path(path).exists():
            return Verified(records=0, problem=f"the record is gone; only its head, {head_path(path)}, is left")
        raise LocalError(f"There is no record {path}") from None
    except (OSError, FileUnusable) as problem:
        raise LocalError(f"{path} cannot be checked: {problem}") from None


def verify_lines(lines: Iterable[bytes], head: bytes | None, key: bytes, kept_at: str) -> Verified:
    """Check the lines of a record against the content of its head."""
    end = decode_head(head, key) if head is not None else None
    before, count, size, began = START, 0, 0, None
    for line in lines:
        link = split_line(line)
        record = None if link is None else read_record(link)
        problem = _judge(link, record, before, count, key) or (_opening(record, kept_at) if count == 0 else None)
        if link is None or problem is not None:
            return Verified(records=count, problem=problem, began=began)
        began = record.at if count == 0 and record is not None else began
        before, count, size = link.hash, count + 1, size + len(line)
        if end is not None and count == end.count and end != AuditHead(count, size, before):
            problem = f"record {count - 1} is not the one that the head tells of"
            return Verified(records=count - 1, problem=problem, began=began)
    problem = None
    if end is None:
        what = "is missing" if not head else "was changed, or is that of another record"
        problem = f"the head {what}, so nobody can tell whether the end was cut off"
    elif count < end.count:
        problem = f"the end is missing: records {count} to {end.count - 1}"
    return Verified(records=count, problem=problem, began=began)


def _judge(link: ChainedLine | None, record: AuditRecord | None, before: str, count: int, key: bytes) -> str | None:
    """The problem of the line that should be number `count`; None if there is none."""
    if link is None:
        return f"record {count} was changed: the line is none that Dovetail writes"
    if link.hash != link_hash(before, link.body):
        if record is not None and record.n != count:
            return f"record {count} is missing or was moved: record {record.n} stands in its place"
        return f"record {count} was changed, or what is before it"
    if link.seal != seal(key, link.hash):
        return f"record {count} was not written by Dovetail: its seal is wrong"
    if record is None or record.n != count:
        return f"record {count} cannot be read"
    return None


def _opening(record: AuditRecord | None, kept_at: str) -> str | None:
    if record is None or record.event != OPENING:
        return "record 0 does not open the record"
    place = record.details.get("kept_at")
    if place != kept_at:
        return f"record 0 says that this is what was recorded at {place}: it was moved here, or swapped with another"
    return None


def _lines(log: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines up to a size; what is written meanwhile is left for the next time."""
    left = size
    while left > 0 and (line := log.readline(min(left, MAX_LINE))):
        left -= len(line)
        yield line
