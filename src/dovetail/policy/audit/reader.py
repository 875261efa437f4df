"""Reader and export of an audit log."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from dovetail.policy.inspection.invisible_chars import show_hidden
from dovetail.protocol.errors import LocalError

from .chain import AuditRecord, read_record, split_line

COLUMNS = ("n", "at", "event", "server", "name", "by", "rule", "definition", "details")

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters that a spreadsheet takes for the beginning of a formula."""


def read_records(
    path: Path, *, server: str | None = None, event: str | None = None, since: datetime | None = None
) -> Iterator[AuditRecord]:
    """The records of a file, in order, those that are wanted; it does not say whether they are genuine (`verify`)."""
    try:
        with path.open("rb") as log:
            for number, line in enumerate(log):
                link = split_line(line)
                record = None if link is None else read_record(link)
                if record is None:
                    raise LocalError(f"{path}: record {number} cannot be read; see `dovetail audit verify`")
                if _wanted(record, server, event, since):
                    yield record
    except FileNotFoundError:
        raise LocalError(f"There is no record {path}") from None
    except OSError as problem:
        raise LocalError(f"{path} cannot be read: {problem.strerror}") from None


def as_json_lines(records: Iterable[AuditRecord]) -> Iterator[str]:
    """Each record as one line of JSON, without what chains it to the others."""
    for record in records:
        yield msgspec.json.encode(record).decode() + "\n"


def as_csv(records: Iterable[AuditRecord]) -> Iterator[str]:
    """A table, with the details as JSON; nothing in it is taken for a formula by a spreadsheet."""
    yield _row(COLUMNS)
    for record in records:
        values = [getattr(record, name) for name in COLUMNS[:-1]]
        details = msgspec.json.encode(record.details).decode() if record.details else ""
        yield _row([_harmless("" if value is None else str(value)) for value in (*values, details)])


def _row(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _harmless(cell: str) -> str:
    shown = show_hidden(cell)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _wanted(record: AuditRecord, server: str | None, event: str | None, since: datetime | None) -> bool:
    return (
        (server is None or record.server == server)
        and (event is None or record.event == event)
        and (since is None or datetime.fromisoformat(record.at) >= since)
    )
