"""`dovetail audit show`, `dovetail audit verify` and `dovetail audit export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK, Failed
from dovetail.cli.options.client_options import add_output
from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.policy.audit.chain import AuditRecord

_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("what", choices=tuple(_WHAT), help="look at it, see whether it is whole, or copy it out")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the record (default: audit.jsonl in your own folder)")
    some = parser.add_argument_group("show and export")
    some.add_argument("--server", metavar="KEY", help="what is about this server")
    some.add_argument("--kind", metavar="EVENT", help="call, result, question, answer, refusal, launch, config, …")
    some.add_argument("--since", type=_moment, metavar="WHEN", help="a date, a date with a time, or 30m, 12h, 7d ago")
    some.add_argument("--last", type=int, metavar="N", help="no more than the last N")
    some.add_argument("--as", dest="form", choices=("jsonl", "csv"), default="jsonl", help="the form of the export")
    parser.add_argument("--kept-at", metavar="PATH", help="verify: where a record that is now elsewhere was written")
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Do what is wanted with the record."""
    return _WHAT[options.what](options)


def _show(options: argparse.Namespace) -> int:
    import msgspec

    records = list(_wanted(options))
    if options.format == "json":
        output.show_json(msgspec.to_builtins(records))
        return OK
    rows = [
        (str(each.n), _when(each.at), each.event, _seen(each.server), _seen(each.name), each.by or "", _story(each))
        for each in records
    ]
    output.show_table(None, ("n", "when", "event", "server", "name", "by", "what"), rows)
    return OK


def _verify(options: argparse.Namespace) -> int:
    from dovetail.policy.audit.verify import verify

    path = _path(options)
    found = verify(path, kept_at=Path(options.kept_at) if options.kept_at else None)
    if found.problem is not None:
        raise Failed(
            "tampered", f"{path} is not whole: {found.problem} ({found.records} records before it are genuine)"
        )
    facts = {"file": str(path), "records": found.records}
    if options.format == "json":
        output.show_json(facts)
    else:
        output.show_text(f"{path} is whole: {found.records} records.")
    return OK


def _export(options: argparse.Namespace) -> int:
    from dovetail.policy.audit.reader import as_csv, as_json_lines

    write = as_csv if options.form == "csv" else as_json_lines
    for line in write(_wanted(options)):
        sys.stdout.write(line)
    return OK


_WHAT: dict[str, Callable[[argparse.Namespace], int]] = {"show": _show, "verify": _verify, "export": _export}


def _wanted(options: argparse.Namespace) -> Iterator[AuditRecord]:
    from collections import deque

    from dovetail.policy.audit.reader import read_records

    if options.last is not None and options.last < 0:
        raise UsageError("--last takes a number of records")
    found = read_records(_path(options), server=options.server, event=options.kind, since=options.since)
    return found if options.last is None else iter(deque(found, maxlen=options.last))


def _path(options: argparse.Namespace) -> Path:
    from dovetail.policy.audit.log import FILE
    from dovetail.userdata.folders import user_folder

    return Path(options.file) if options.file is not None else user_folder() / FILE


def _moment(text: str) -> datetime:
    unit = _SPANS.get(text[-1:])
    try:
        if unit is not None and text[:-1].isdecimal():
            return datetime.now(UTC) - timedelta(**{unit: int(text[:-1])})
        found = datetime.fromisoformat(text)
        return found.astimezone() if found.tzinfo is None else found
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write a date with or without a time, or 30m, 12h, 7d"
        ) from None


def _when(at: str) -> str:
    """The time on the clock of whoever looks."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _story(record: AuditRecord) -> str:
    import msgspec

    parts = [record.rule] if record.rule else []
    if record.details:
        parts.append(msgspec.json.encode(record.details).decode())
    return _seen(" · ".join(parts))


def _seen(text: str) -> str:
    """A text of others with nothing hidden in it, also where it goes through a pager."""
    from dovetail.policy.inspection.invisible_chars import show_hidden

    return show_hidden(text).replace("\r", "\\r").replace("\n", "\\n")
