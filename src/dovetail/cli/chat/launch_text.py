"""How a server is started or reached, whole, for a person who is to agree to it."""

from __future__ import annotations

from dovetail.cli.chat.ui.colours import Part
from dovetail.cli.chat.views.rendering import command_line, one_line
from dovetail.policy.approval_questions import LaunchQuestion
from dovetail.policy.launch import LaunchSpec


def verb(spec: LaunchSpec) -> str:
    """What happens to it: a command is started, an address reached."""
    return "started" if spec.kind == "stdio" else "reached"


def describe(question: LaunchQuestion) -> list[Part]:
    """The whole launch; where another one was approved before, that one too."""
    lines: list[Part] = [("dim", f"  from {one_line(question.origin)}")]
    lines += launch_lines(question.spec)
    if question.before is not None:
        lines.append(("bad", "  This has changed. Approved before was:"))
        lines += _old(question.before)
    return lines


def launch_lines(spec: LaunchSpec) -> list[Part]:
    """A launch line by line; no word of it is cut."""
    if spec.kind == "stdio":
        lines: list[Part] = [("strong", "  command:"), f"  {command_line(spec.command)}"]
        if spec.cwd:
            lines.append(f"  in the folder {one_line(spec.cwd)}")
    else:
        lines = [
            ("strong", f"  {spec.kind} address, at the host {host_of(spec.url or '')}:"),
            f"  {one_line(spec.url or '')}",
        ]
    lines += [f"  {name}={value}" for name, value in _shown(spec.env)]
    lines += [f"  {name}: {value}" for name, value in _shown(spec.headers)]
    return lines + [
        f"  ${{input:{name}}} is {value} where nothing else is given" for name, value in _shown(spec.defaults)
    ]


def host_of(url: str) -> str:
    """The host of an address, without what may stand around it to mislead."""
    from urllib.parse import urlsplit

    try:
        return one_line(urlsplit(url).hostname or "?")
    except ValueError:
        return "?"


def _old(spec: LaunchSpec) -> list[Part]:
    return [("dim", line if isinstance(line, str) else line[1]) for line in launch_lines(spec)]


def _shown(values: dict[str, str]) -> list[tuple[str, str]]:
    """Names and values; a value that is a secret by its name or its looks is not for the screen."""
    from dovetail.text.redact import REDACTED, is_secret, redact_text

    return [
        (one_line(name), REDACTED if is_secret(name) and not value.startswith("${") else one_line(redact_text(value)))
        for name, value in sorted(values.items())
    ]
