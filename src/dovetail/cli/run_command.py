"""Entry point: run a subcommand, report errors, return the exit code."""

from __future__ import annotations

import errno
import io
import itertools
import os
import sys
from collections.abc import Sequence

from .exit_status import FAILED, INTERRUPTED, OK, USAGE, ErrorReport, explain
from .parser import COMMANDS, load_command, main_parser, option_before_command, parse, unknown_command

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run_command(argv: Sequence[str] | None = None) -> int:
    """Run the command line; errors go to stderr, as text or as JSON."""
    words = list(sys.argv[1:] if argv is None else argv)
    _accept_any_character()
    try:
        return _run_and_flush(words)
    except BrokenPipeError:
        # The reader of our output has closed it.
        _discard_output()
        return OK
    except KeyboardInterrupt:
        return _print_error(ErrorReport(INTERRUPTED, "cancelled", "Cancelled."), words)
    except Exception as problem:
        report = _output_failure(problem) or explain(problem)
        if report is None:
            raise
        return _print_error(report, words)


def _run_and_flush(words: list[str]) -> int:
    """Run the command line; output that cannot be written fails here and not when the process ends."""
    try:
        code = _run(words)
    except SystemExit:  # after --help
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def _run(words: list[str]) -> int:
    name = words[0] if words else ""
    if name == "__complete":
        from dovetail.cli.options.candidates import print_candidates

        return print_candidates(words[1:])
    if name in COMMANDS:
        options = parse(name, words[1:])
        if (file := getattr(options, "output_file", None)) is None:
            return load_command(name).run(options)
        from .output import stdout_to_file

        with stdout_to_file(file):
            return load_command(name).run(options)
    parser = main_parser()
    options, unknown = parser.parse_known_args(words[:1] if name and not name.startswith("-") else words)
    if unknown:
        parser.error(option_before_command(words) or f"there is no option {unknown[0]} before the command")
    if options.version:
        from dovetail import __version__

        print(f"dovetail {__version__}")
        return OK
    if options.command:
        parser.error(unknown_command(options.command))
    print(parser.format_help(), end="")
    return USAGE


def _output_failure(problem: Exception) -> ErrorReport | None:
    """The report if the output could not be written: the disk is full, or the user's share of it."""
    if not isinstance(problem, OSError) or problem.filename is not None or problem.errno not in _FULL:
        return None
    _discard_output()
    return ErrorReport(FAILED, "output", f"The output cannot be written: {problem.strerror}")


def _discard_output() -> None:
    """Redirect stdout, so that flushing at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _accept_any_character() -> None:
    """Let standard streams write characters that their encoding lacks as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_error(report: ErrorReport, words: list[str]) -> int:
    from .output import encodable_json, printable

    if _wants_json(words):
        import json

        print(encodable_json(json.dumps(report.as_json(), ensure_ascii=False), sys.stderr), file=sys.stderr)
    else:
        message = report.message
        print(f"dovetail: {printable(message) if sys.stderr.isatty() else message}", file=sys.stderr)
    return report.exit_code


def _wants_json(words: list[str]) -> bool:
    """Look for `--format json` in the raw words, since parsing them may be what failed."""
    return "--format=json" in words or ("--format", "json") in itertools.pairwise(words)
