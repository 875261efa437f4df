"""`/policy` and `/audit`: the rules in force, and the latest records of the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.colours import Tone
from dovetail.cli.parser import UsageError
from dovetail.runtime.thread_pool import run_in_thread

from .rendering import one_line, shortened, wrapped

if TYPE_CHECKING:
    from dovetail.policy.audit.chain import AuditRecord
    from dovetail.policy.rules import Rule

_RECORDS = 20
_TONES: dict[str, Tone] = {"allow": "good", "ask": "warn", "deny": "bad"}
_DECIDERS = {"person": "you"}
"""Stored names of deciders, and what the user reads."""


async def policy(session: ChatSession, words: list[str]) -> None:
    """List the rules in the order in which they are tried."""
    from dovetail.policy.rules import DEFAULTS

    host = session.host
    answers = await run_in_thread(host.saved_answers)
    _section(session, "your answers, which come first:", answers)
    _section(session, "rules, of which a deny always wins and else the first that matches:", host.policy.rules)
    _section(session, "defaults:", DEFAULTS)
    trusted = [key for key, status in host.servers.items() if status.trusted]
    session.ui.say(("dim", f"  trusted servers: {', '.join(map(one_line, trusted)) or 'none'} (/servers changes it)"))


async def audit(session: ChatSession, words: list[str]) -> None:
    """Show the latest records, of one server if it is named; a number says how many."""
    from dovetail.policy.audit.reader import read_records

    count, server = _RECORDS, None
    for word in words:
        if word.isascii() and word.isdigit():
            count = int(word)
        elif word in session.host.servers:
            server = word
        else:
            raise UsageError(f"/audit takes a number and the key of a server; there is no server {word}")
    host = session.host

    def read() -> list[AuditRecord]:
        from collections import deque

        host.audit.flush()
        return list(deque(read_records(host.audit.path, server=server), maxlen=count))

    records = await run_in_thread(read)
    for record in records:
        session.ui.say((_tone(record), shortened(_text(record), max(session.ui.width - 1, 40))))
    if not records:
        session.ui.say(("dim", "  No record."))
    session.ui.say(("dim", "  `dovetail audit show` has all of it, and `dovetail audit verify` checks it."))


def _section(session: ChatSession, title: str, rules: list[Rule] | tuple[Rule, ...]) -> None:
    if not rules:
        return
    session.ui.say(("strong", f"  {title}"))
    for rule in rules:
        session.ui.say((_TONES[rule.verdict], wrapped(str(rule), session.ui.width, "    ")))


def _tone(record: AuditRecord) -> Tone:
    if record.event == "refusal" or record.details.get("error") or record.details.get("is_error"):
        return "bad"
    return "dim" if record.event in ("question", "result") else "plain"


def _text(record: AuditRecord) -> str:
    from datetime import datetime

    import msgspec

    at = datetime.fromisoformat(record.at).astimezone().strftime("%H:%M:%S")
    by = f" by {_DECIDERS.get(record.by, record.by)}" if record.by else ""
    what = " ".join(filter(None, [record.event, record.server, record.name]))
    details = {name: value for name, value in record.details.items() if name not in ("kind", "spec")}
    more = f" {msgspec.json.encode(details).decode()}" if details else ""
    return f"{record.n:5} {at} {what}{by}{more}"
