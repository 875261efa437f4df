"""Answers to questions of servers from the command line: `--answer key=value` and `--answers FILE`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from dovetail.cli.exit_status import CommandFailed, ErrorReport
from dovetail.cli.parser import UsageError

from .values import read_pairs

if TYPE_CHECKING:
    from dovetail.cli.terminal.prompt_forms import ElicitationAnswer, ElicitationPrompts
    from dovetail.client.elicitation import Elicitation

NO_TERMINAL = "There is no terminal to ask at"
_ACTIONS = ("decline", "cancel")


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Add `--answer` and `--answers`."""
    group = parser.add_argument_group("questions of the server")
    group.add_argument(
        "--answer",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="the answer for a field of a form that the server asks for",
    )
    group.add_argument(
        "--answers",
        metavar="FILE",
        help='a JSON object of answers; or a list with an object, "decline" or "cancel" for each question in turn',
    )
    group.add_argument("--sample", action="store_true", help="answer sampling requests yourself, in place of a model")


def read_answers(options: argparse.Namespace) -> ScriptedAnswers | None:
    """The answers that the options give; None without any."""
    pairs = read_pairs(options.answer)
    if options.answers is None:
        return ScriptedAnswers(pairs) if pairs else None
    return ScriptedAnswers(pairs, _read_file(options.answers))


class ScriptedAnswers:
    """Answers to elicitations by the names of their fields; the user is asked for the rest, if there is a terminal."""

    def __init__(self, pairs: dict[str, str], values: dict[str, Any] | Sequence[Any] = ()) -> None:
        """`pairs` are texts, converted by the form; `values` are JSON, for all questions or in a list for each."""
        self.prompts: ElicitationPrompts | None = None
        """Asks the user; None without a terminal."""
        self.problem: CommandFailed | None = None
        """The reason why a question has no answer."""
        self.work: asyncio.Task[Any] | None = None
        """The task that waits for the server."""
        self._pairs = pairs
        self._shared: dict[str, Any] = values if isinstance(values, dict) else {}
        self._queue: list[Any] = [] if isinstance(values, dict) else list(values)
        self._used: set[str] = set()

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Answer a question; if that is impossible, keep the reason and cancel the work, and with it the request."""
        try:
            return await self._answer(question)
        except CommandFailed as problem:
            self.problem = self.problem or problem
            if self.work is not None:
                self.work.cancel()
            await asyncio.Event().wait()  # until the connection is closed
            raise

    def unused(self) -> list[str]:
        """The names that no question asked for."""
        return [name for name in {**self._pairs, **self._shared} if name not in self._used]

    async def _answer(self, question: Elicitation) -> ElicitationAnswer:
        if question.mode == "url":
            if self.prompts is None:
                raise _unanswered(f"{_asker(question)} asks you to open {question.url}. {NO_TERMINAL}.")
            return await self.prompts.elicit(question)
        values = self._queue.pop(0) if self._queue else self._shared
        if isinstance(values, str):
            return "decline" if values == "decline" else "cancel"
        given = self._content(question, values)
        content = question.filled(given)
        missing = [name for name in (question.schema or {}).get("required", []) if name not in content]
        if missing and self.prompts is not None:
            return await self.prompts.elicit(question, given)
        if missing:
            words = " ".join(f"--answer {name}=…" for name in missing)
            raise _unanswered(
                f'{_asker(question)} asks "{question.message.strip()}" and needs {", ".join(missing)}. '
                f"{NO_TERMINAL}: answer with {words}, or with --answers FILE."
            )
        if problems := question.problems(content):
            raise _unanswered(f'The answers to "{question.message.strip()}" do not fit: {"; ".join(problems)}')
        return content

    def _content(self, question: Elicitation, values: dict[str, Any]) -> dict[str, Any]:
        """The answers for the fields of this form."""
        from dovetail.cli.terminal.fields import FormField

        content: dict[str, Any] = {}
        fields: dict[str, Any] = (question.schema or {}).get("properties", {})
        for name, schema in fields.items():
            if name in self._pairs:
                try:
                    content[name] = FormField(name, schema, required=True).read(self._pairs[name])
                except ValueError as problem:
                    raise _unanswered(f"--answer {name}={self._pairs[name]} does not fit: {problem}") from None
            elif name in values:
                content[name] = values[name]
        self._used.update(content)
        return content


def with_hint(problem: Exception, revision: str, report: ErrorReport) -> CommandFailed | None:
    """The error of a server that could not ask the user, with what to do; None for any other error."""
    from dovetail.protocol.errors import MISSING_CAPABILITY, RemoteError, ToolFailed
    from dovetail.protocol.revisions import REVISIONS

    asks = "elicitation/create"
    known = REVISIONS[revision]
    if (asks not in known.methods and asks not in known.inputs) or "elicit" not in report.message.lower():
        return None
    if not isinstance(problem, ToolFailed) and not (
        isinstance(problem, RemoteError) and problem.code == MISSING_CAPABILITY
    ):
        return None
    hint = f"{NO_TERMINAL}: answer with --answer KEY=VALUE, or with --answers FILE."
    return CommandFailed(report.code, f"{hint}\nThe server said: {report.message}", report.exit_code, **report.facts)


def _read_file(path: str) -> dict[str, Any] | list[Any]:
    import msgspec

    try:
        with open(path, "rb") as file:
            values: Any = msgspec.json.decode(file.read())
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{path} is not JSON: {problem}") from None
    if isinstance(values, dict):
        return cast("dict[str, Any]", values)
    if isinstance(values, list) and all(
        isinstance(value, dict) or value in _ACTIONS for value in cast("list[Any]", values)
    ):
        return cast("list[Any]", values)
    raise UsageError(f'{path} must hold an object, or a list of objects, "decline" and "cancel"')


def _asker(question: Elicitation) -> str:
    server = question.server
    return "The server" if server is None else server.title or server.name


def _unanswered(message: str) -> CommandFailed:
    return CommandFailed("unanswered", message)
