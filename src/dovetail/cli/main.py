"""From the words of the command line to an exit code."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence

from . import parser as command_parser
from .exit_status import INTERRUPTED, OK, USAGE, Complaint, explain


def run_command(argv: Sequence[str] | None = None) -> int:
    """Find the verb, run it, and say what went wrong, for people or for scripts."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _complain(Complaint(INTERRUPTED, "cancelled", "Cancelled."), words)
    except Exception as problem:
        complaint = explain(problem)
        if complaint is None:
            raise
        return _complain(complaint, words)


def _run(words: list[str]) -> int:
    name = words[0] if words else ""
    if name == "__complete":
        from dovetail.cli.options.candidates import print_candidates

        return print_candidates(words[1:])
    if name in command_parser.VERBS:
        return command_parser.load_verb(name).run(command_parser.parse(name, words[1:]))
    parser = command_parser.top_parser()
    options = parser.parse_args(words[:1] if name and not name.startswith("-") else words)
    if options.version:
        from dovetail import __version__

        print(f"dovetail {__version__}")
        return OK
    if options.verb:
        import difflib

        near = difflib.get_close_matches(str(options.verb), list(command_parser.VERBS), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        parser.error(f"there is no verb {options.verb!r}{hint}")
    print(parser.format_help(), end="")
    return USAGE


def _complain(complaint: Complaint, words: list[str]) -> int:
    from .output import printable

    if _wants_json(words):
        import json

        print(json.dumps(complaint.as_json(), ensure_ascii=False), file=sys.stderr)
    else:
        message = complaint.message
        print(f"dovetail: {printable(message) if sys.stderr.isatty() else message}", file=sys.stderr)
    return complaint.exit_code


def _wants_json(words: list[str]) -> bool:
    """Whether a script reads us; asked of the words, since they may be what is wrong."""
    return "--format=json" in words or ("--format", "json") in itertools.pairwise(words)
