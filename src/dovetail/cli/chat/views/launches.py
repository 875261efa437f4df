"""Launches for display, in full: what the user approves, and what has changed since."""

from __future__ import annotations

import re

from dovetail.cli.chat.ui.colours import Part
from dovetail.config.launch_spec import LaunchSpec
from dovetail.policy.approval_questions import LaunchQuestion
from dovetail.policy.launch import has_same_words, short_digest

from .rendering import command_line, one_line

_INPUT = re.compile(r"(\$\{input:[^{}]*\})")
_SCHEME = re.compile(r"\s*(?:(?:bearer|basic|token)\s+)?", re.IGNORECASE)


def launch_verb(spec: LaunchSpec) -> str:
    """A command is "started", an address "reached"."""
    return "started" if spec.kind == "stdio" else "reached"


def launch_description(question: LaunchQuestion) -> list[Part]:
    """The full launch specification, and the previously approved one if it differs."""
    lines: list[Part] = [("dim", f"  from {one_line(question.origin)}")]
    lines += launch_lines(question.spec)
    if question.before is not None:
        for change in question.changes:
            lines.append(("bad", f"  ! {one_line(change)}"))
        if not has_same_words(question.before, question.spec):
            lines.append(("bad", "  This has changed. Previously approved:"))
            lines += _dimmed(question.before)
    return lines


def launch_lines(spec: LaunchSpec) -> list[Part]:
    """The launch specification line by line, never truncated."""
    if spec.kind == "stdio":
        lines: list[Part] = [("strong", "  command:"), f"  {command_line(spec.command)}"]
        if spec.cwd:
            lines.append(f"  in the folder {one_line(spec.cwd)}")
        if spec.program is not None:
            lines.append(f"  program: {one_line(spec.program)}")
        lines += [f"  file: {one_line(path)} ({short_digest(digest)})" for path, digest in spec.files.items()]
    else:
        lines = [
            ("strong", f"  {spec.kind} address, at the host {host_of(spec.url or '')}:"),
            f"  {one_line(spec.url or '')}",
        ]
    lines += [f"  {name}={value}" for name, value in _shown(spec.env)]
    lines += [f"  {name}: {value}" for name, value in _shown(spec.headers)]
    return lines + [f"  ${{input:{name}}} defaults to {value}" for name, value in _shown(spec.defaults)]


def host_of(url: str) -> str:
    """The host of a URL, without misleading parts around it."""
    from urllib.parse import urlsplit

    try:
        return one_line(urlsplit(url).hostname or "?")
    except ValueError:
        return "?"


def _dimmed(spec: LaunchSpec) -> list[Part]:
    return [("dim", line if isinstance(line, str) else line[1]) for line in launch_lines(spec)]


def _shown(values: dict[str, str]) -> list[tuple[str, str]]:
    """(name, value) pairs, with secrets redacted; what decides which code runs is never hidden."""
    return [(one_line(name), one_line(_shown_value(name, value))) for name, value in sorted(values.items())]


def _shown_value(name: str, value: str) -> str:
    from dovetail.policy.launch import steers_programs
    from dovetail.text.redact import REDACTED, is_secret, redact_text

    if steers_programs(name):
        return value
    parts = _INPUT.split(value)
    if len(parts) == 1:
        return REDACTED if is_secret(name) else redact_text(value)
    # The inputs are shown, and a scheme such as Bearer: a user must see whose secret a server is given.
    return "".join(
        part
        if _INPUT.fullmatch(part) or _SCHEME.fullmatch(part)
        else REDACTED
        if is_secret(name)
        else redact_text(part)
        for part in parts
    )
