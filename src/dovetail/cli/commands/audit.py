"""`dovetail audit show`, `dovetail audit verify` and `dovetail audit export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli import output
from dovetail.cli.exit_status import OK, CommandFailed
from dovetail.cli.options.client_options import add_format_option, add_output_option
from dovetail.cli.options.numbers import whole_number
from dovetail.cli.parser import UsageError

if TYPE_CHECKING:
    from dovetail.policy.audit.chain import AuditRecord

_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def configure_audit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "what", choices=tuple(_WHAT), metavar="show|verify|export", help="what to do with the audit log"
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the audit log (default: audit.jsonl in your user folder)"
    )
    some = parser.add_argument_group("show and export")
    some.add_argument("--server", metavar="KEY", help="only records about this server")
    some.add_argument("--kind", metavar="EVENT", help="call, result, question, answer, refusal, launch, config, …")
    some.add_argument("--since", type=_moment, metavar="WHEN", help="a date, a date with a time, or 30m, 12h, 7d ago")
    some.add_argument("--last", type=whole_number("the number of records"), metavar="N", help="only the last N records")
    some.add_argument("--as", dest="form", choices=("jsonl", "csv"), default="jsonl", help="the form of the export")
    parser.add_argument("--kept-at", metavar="PATH", help="verify: the path where a moved log was written")
    add_format_option(parser)
    add_output_option(parser)


def run_audit(options: argparse.Namespace) -> int:
    """Show, verify or export the audit log."""
    return _WHAT[options.what](options)


def _show(options: argparse.Namespace) -> int:
    import msgspec

    records = list(_wanted(options))
    if options.format == "json":
        output.show_json(msgspec.to_builtins(records))
        return OK
    rows = [
        (
            str(each.n),
            _when(each.at),
            each.event,
            _visible(each.server),
            _visible(each.name),
            each.by or "",
            _details(each),
        )
        for each in records
    ]
    output.show_table(None, ("n", "when", "event", "server", "name", "by", "what"), rows)
    return OK


def _verify(options: argparse.Namespace) -> int:
    from dovetail.policy.audit.verify import verify

    path = _path(options)
    result = verify(path, kept_at=Path(options.kept_at) if options.kept_at else None)
    if result.problem is not None:
        raise CommandFailed(
            "tampered", f"{path} is not whole: {result.problem} ({result.records} records before it are genuine)"
        )
    facts = {"file": str(path), "records": result.records, "began": result.began}
    if options.format == "json":
        output.show_json(facts)
    else:
        since = "" if result.began is None else f", the first of {_when(result.began)}"
        output.show_text(f"{path} is whole: {result.records} records{since}.")
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
    records = read_records(_path(options), server=options.server, event=options.kind, since=options.since)
    return records if options.last is None else iter(deque(records, maxlen=options.last))


def _path(options: argparse.Namespace) -> Path:
    from dovetail.policy.audit.log import FILE
    from dovetail.userdata.folders import user_folder

    return Path(options.file) if options.file is not None else user_folder() / FILE


def _moment(text: str) -> datetime:
    unit = _SPANS.get(text[-1:])
    try:
        if unit is not None and text[:-1].isdecimal():
            return datetime.now(UTC) - timedelta(**{unit: int(text[:-1])})
        moment = datetime.fromisoformat(text)
        return moment.astimezone() if moment.tzinfo is None else moment
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write a date with or without a time, or 30m, 12h, 7d"
        ) from None


def _when(at: str) -> str:
    """Convert to local time."""
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _details(record: AuditRecord) -> str:
    import msgspec

    parts = [record.rule] if record.rule else []
    if record.details:
        parts.append(msgspec.json.encode(record.details).decode())
    return _visible(" · ".join(parts))


def _visible(text: str) -> str:
    """Text of servers with invisible characters shown, also for pagers."""
    from dovetail.policy.inspection.invisible_chars import show_hidden

    return show_hidden(text).replace("\r", "\\r").replace("\n", "\\n")
