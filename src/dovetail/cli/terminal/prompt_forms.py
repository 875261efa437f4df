"""Elicitation and sampling requests of servers, answered by the user at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from .fields import FormField, form_fields
from .terminal import InputClosed

if TYPE_CHECKING:
    from dovetail.client.elicitation import Elicitation
    from dovetail.types.client_features import CreateMessageParams

ElicitationAnswer = dict[str, Any] | Literal["accept", "decline", "cancel"]

DECLINE = "/decline"
CANCEL = "/cancel"

_SEND = {"y": "yes", "e": "edit", "d": "decline", "c": "cancel"}
_PAGE = {"o": "open it", "a": "already there", "d": "decline", "c": "cancel"}


class _FormAborted(Exception):
    """The user declined or cancelled the form."""

    def __init__(self, action: Literal["decline", "cancel"]) -> None:
        self.action: Literal["decline", "cancel"] = action


class PromptIO(Protocol):
    """Input and output for prompts."""

    def question(self) -> AbstractAsyncContextManager[None]:
        """Exclusive use of the terminal for one question."""
        ...

    def say(self, text: str = "", /) -> None:
        """Print a line."""
        ...

    async def prompt(self, prompt: str, /) -> str:
        """Read one line; `InputClosed` at end of input."""
        ...


class ElicitationPrompts:
    """Asks the user what servers request, one request at a time."""

    def __init__(self, terminal: PromptIO, server: str | None = None, warnings: Sequence[str] = ()) -> None:
        """`server` is the name to show; by default the name from the server's own info."""
        self._terminal = terminal
        self._server = server
        self._warnings = warnings

    async def elicit(self, question: Elicitation, given: Mapping[str, Any] | None = None) -> ElicitationAnswer:
        """Ask for a form field by field, or offer to open a URL; fields that are `given` are asked for only to edit."""
        async with self._terminal.question():
            self._introduce(question)
            try:
                return await (self._page(question) if question.mode == "url" else self._form(question, given or {}))
            except InputClosed:
                return "cancel"
            except _FormAborted as left:
                return left.action

    async def sample(self, request: CreateMessageParams) -> str:
        """Let the user answer in place of a model; an empty answer refuses."""
        from dovetail.protocol.errors import Refused

        async with self._terminal.question():
            self._terminal.say("The server sends a sampling request:")
            if request.system_prompt:
                self._terminal.say(f"  system: {request.system_prompt}")
            for message in request.messages:
                self._terminal.say(f"  {message.role}: {_words(message.content)}")
            try:
                answer = await self._terminal.prompt("Your answer (Enter refuses): ")
            except InputClosed:
                answer = ""
        if not answer:
            raise Refused("The user declined to answer in place of a model")
        return answer

    def _introduce(self, question: Elicitation) -> None:
        server = question.server
        name = self._server or ((server.title or server.name) if server is not None else "The server")
        # A line of the server must not look like one of ours.
        message = question.message.strip().replace("\n", "\n  | ")
        self._terminal.say(f"{name} asks: {message}")
        for warning in self._warnings:
            self._terminal.say(f"  ! {warning}")

    async def _page(self, question: Elicitation) -> ElicitationAnswer:
        say = self._terminal.say
        say(f"  It wants you to go to {question.host}:")
        say(f"  {question.url}")
        choice = await self._choose("", _PAGE)
        if choice == "o":
            _open(question.url or "", say)
            return "accept"
        return "accept" if choice == "a" else _action(choice)

    async def _form(self, question: Elicitation, given: Mapping[str, Any]) -> ElicitationAnswer:
        fields = form_fields(question.schema or {})
        if fields is None:
            return await self._any_form(question)
        if fields:
            self._terminal.say(f"  ({DECLINE} declines, {CANCEL} or Ctrl-D cancels, Ctrl-C ends the call)")
        content: dict[str, Any] = {**question.defaults, **given}
        while True:
            for field in fields:
                if field.name not in given:
                    await self._fill(field, content)
            given = {}
            choice = await self._choose("Send?", _SEND, default="y")
            if choice == "y":
                problems = question.problems(content)
                if not problems:
                    return content
                self._terminal.say(f"  {'; '.join(problems)}")
            elif choice != "e":
                return _action(choice)

    async def _fill(self, field: FormField, content: dict[str, Any]) -> None:
        """Ask for one field until the answer is valid; Enter keeps the current value, or omits it."""
        for line in field.introduction():
            self._terminal.say(line)
        while True:
            text = await self._line(field.prompt(content.get(field.name)))
            if not text:
                if field.name in content or not field.required:
                    return
                self._terminal.say("  A value is required.")
                continue
            try:
                content[field.name] = field.read(text)
                return
            except ValueError as problem:
                self._terminal.say(f"  {problem}")

    async def _any_form(self, question: Elicitation) -> ElicitationAnswer:
        """A schema that is not a flat form: show it, and read the answer as JSON."""
        import msgspec

        schema = msgspec.json.format(msgspec.json.encode(question.schema), indent=2).decode()
        self._terminal.say(f"  This form can only be filled in as JSON ({DECLINE} declines, {CANCEL} cancels):")
        self._terminal.say(schema)
        while True:
            text = await self._line("JSON: ")
            try:
                content = msgspec.json.decode(text or "{}", type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError) as problem:
                self._terminal.say(f"  {problem}")
                continue
            if not (problems := question.problems(content)):
                return content
            self._terminal.say(f"  {'; '.join(problems)}")

    async def _choose(self, question: str, choices: Mapping[str, str], default: str | None = None) -> str:
        """Read a line that begins with one of the letters."""
        words = ", ".join(f"[{letter}]{text.removeprefix(letter)}" for letter, text in choices.items())
        while True:
            text = (await self._line(f"{question} {words}: ".lstrip())).lower()
            if not text and default is not None:
                return default
            if text and text[0] in choices:
                return text[0]
            self._terminal.say(f"  Enter one of {', '.join(choices)}.")

    async def _line(self, prompt: str) -> str:
        text = await self._terminal.prompt(prompt)
        if text in (DECLINE, CANCEL):
            raise _FormAborted("decline" if text == DECLINE else "cancel")
        return text


def _open(url: str, say: Callable[[str], None]) -> None:
    from dovetail.client.auth.browser_login import start_browser
    from dovetail.client.auth.interactive import find_browser

    words = find_browser()
    if words is None:
        say("  No browser was found; copy the address.")
    else:
        start_browser(words, url)


def _action(letter: str) -> Literal["decline", "cancel"]:
    return "decline" if letter == "d" else "cancel"


def _words(content: object) -> str:
    blocks = cast("list[object]", content) if isinstance(content, list) else [content]
    return " ".join(getattr(block, "text", f"[{type(block).__name__.lower()}]") for block in blocks)
