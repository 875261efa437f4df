"""The questions of a host, put to the person one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.cli.chat.ui.colours import Part
from dovetail.cli.chat.ui.contract import Interrupted, Surface
from dovetail.cli.chat.views.rendering import as_json, exact, indented, one_line, rule, wrapped
from dovetail.cli.terminal.terminal import Closed
from dovetail.policy.approval_questions import (
    CallQuestion,
    DefinitionQuestion,
    LaunchQuestion,
    No,
    Question,
    Remember,
    Reply,
    RootsQuestion,
    SamplingAnswerQuestion,
    SamplingQuestion,
    Yes,
)

from . import launch_text
from .message_editor import as_draft, edited_answer, edited_params, words_of

_REMEMBER: dict[str, Remember] = {"y": "once", "s": "session", "a": "always"}
_YES = {"y": "once", "s": "this session", "a": "always"}
_NO = {"n": "no", "w": "no, because…"}
_PAUSE = 0.02
"""Seconds in which what led to a question gets onto the screen before it."""
_ROOM = 6
"""Lines of a description that are shown unasked."""


class Dialogs:
    """Asks, and gives what the person answered.

    A question that is taken back is cancelled, and leaves the screen with a line that says so. Ctrl-C refuses, and
    stops whatever the question belongs to.
    """

    def __init__(self, surface: Surface, interrupt: Callable[[], None]) -> None:
        self._surface = surface
        self._interrupt = interrupt

    async def approve(self, question: Question) -> Reply:
        """Ask the person; the host's `on_approve`."""
        await asyncio.sleep(_PAUSE)
        async with self._surface.question():
            try:
                return await self._put(question)
            except Closed:
                return No(reason="The person closed the question.")
            except Interrupted:
                self._interrupt()
                return No(reason="The person stopped it.")
            except asyncio.CancelledError:
                self._surface.say(("dim", f"  (the question of {question.server} was withdrawn)"))
                raise

    async def _put(self, question: Question) -> Reply:
        match question:
            case LaunchQuestion():
                return await self._launch(question)
            case CallQuestion():
                return await self._call(question)
            case SamplingQuestion():
                return await self._sampling(question)
            case SamplingAnswerQuestion():
                return await self._answer(question)
            case RootsQuestion():
                return await self._roots(question)
            case DefinitionQuestion():
                return await self._definition(question)

    async def _launch(self, question: LaunchQuestion) -> Reply:
        self._head("warn", f"May {question.server} be {launch_text.verb(question.spec)}?")
        self._lines(launch_text.describe(question))
        return await self._reply({**_YES, **_NO})

    async def _call(self, question: CallQuestion) -> Reply:
        edited: dict[str, Any] | None = None
        self._head("warn", f"May the tool {question.tool} of {question.server} be called?")
        self._about(question)
        keys = {**_YES, "e": "edit", "v": "whole definition", **_NO}
        while True:
            arguments = question.arguments if edited is None else edited
            self._lines(
                [("strong", f"  arguments{'' if edited is None else ', edited'}:"), indented(as_json(arguments), "  ")]
            )
            key = await self._surface.key(keys)
            if key == "e":
                changed = await self._edited_arguments(question, arguments)
                edited = None if changed == question.arguments else changed
            elif key == "v":
                self._whole(question)
            elif key in _REMEMBER:
                return Yes(remember=_REMEMBER[key], arguments=edited)
            else:
                return await self._refusal(key)

    async def _sampling(self, question: SamplingQuestion) -> Reply:
        params = question.params
        self._head("warn", f"May {question.server} ask the model {question.model}?")
        keys = {**_YES, "e": "edit", **_NO}
        if question.wants_context:
            self._lines([("bad", f"  It also wants to see the conversation ({params.include_context}).")])
            keys = {"y": "once, without the conversation", "c": "once, with it", "e": "edit", **_NO}
        while True:
            self._lines([indented(exact(as_draft(params.messages, params.system_prompt))), _limits(question)])
            if params.tools:
                self._lines([f"  tools for the model: {', '.join(one_line(tool.name) for tool in params.tools)}"])
            key = await self._surface.key(keys)
            changed = None if params is question.params else params
            if key == "e":
                params = await self._edited(as_draft(params.messages, params.system_prompt), params, edited_params)
            elif key == "c":
                return Yes(params=changed, context=True)
            elif key in _REMEMBER:
                return Yes(remember=_REMEMBER[key], params=changed)
            else:
                return await self._refusal(key)

    async def _answer(self, question: SamplingAnswerQuestion) -> Reply:
        answer = question.answer
        self._head("warn", f"May {question.server} see what the model said?")
        while True:
            self._lines([indented(exact(words_of(answer.content))), ("dim", f"  said by {answer.model}")])
            key = await self._surface.key({**_YES, "e": "edit", **_NO})
            if key == "e":
                answer = await self._edited(answer.text, answer, edited_answer)
            elif key in _REMEMBER:
                return Yes(remember=_REMEMBER[key], answer=None if answer is question.answer else answer)
            else:
                return await self._refusal(key)

    async def _roots(self, question: RootsQuestion) -> Reply:
        self._head("warn", f"May {question.server} know of these folders?")
        self._lines([f"  {one_line(root)}" for root in question.roots])
        return await self._reply({**_YES, **_NO})

    async def _definition(self, question: DefinitionQuestion) -> Reply:
        what = "the instructions" if question.kind == "instructions" else f"the {question.kind} {question.name}"
        self._head("bad", f"{question.server}: {what} may have changed its meaning. Take it up?")
        self._lines([("bad", f"  ! {one_line(concern)}") for concern in question.concerns])
        self._lines(difference(question.difference))
        return await self._reply({"y": "take it up", **_NO})

    async def _reply(self, keys: dict[str, str]) -> Reply:
        key = await self._surface.key(keys)
        return Yes(remember=_REMEMBER[key]) if key in _REMEMBER else await self._refusal(key)

    async def _refusal(self, key: str) -> No:
        return No(reason=await self._surface.ask("Why not? ") if key == "w" else "")

    async def _edited(self, text: str, value: Any, read: Callable[[Any, str], Any]) -> Any:
        """The value as the person changed it; what cannot be read is said, and edited again."""
        while True:
            changed = await self._surface.edit(text, "the text")
            if changed is None or changed == text:
                return value
            try:
                return read(value, changed)
            except ValueError as problem:
                self._surface.say(("bad", f"  {problem}"))
                text = changed

    async def _edited_arguments(self, question: CallQuestion, arguments: dict[str, Any]) -> dict[str, Any]:
        def read(_: object, text: str) -> dict[str, Any]:
            from dovetail.schema.validation import compile_schema

            try:
                changed = msgspec.json.decode(text, type=dict[str, Any])
            except (msgspec.MsgspecError, RecursionError) as problem:
                raise ValueError(f"this is no JSON object: {problem}") from None
            validator = compile_schema(question.input_schema) if question.input_schema else None
            if validator is not None and not validator.is_valid(changed):
                raise ValueError("; ".join(validator.problems(changed)))
            return changed

        return await self._edited(as_json(arguments), arguments, read)

    def _about(self, question: CallQuestion) -> None:
        if question.title:
            self._lines([f"  title: {one_line(question.title)}"])
        if question.description:
            lines = wrapped(question.description, self._surface.width).split("\n")
            more = [("dim", "  (v shows all of it)")] if len(lines) > _ROOM else []
            self._lines(["\n".join(lines[:_ROOM]), *more])
        if question.rule:
            self._lines([("dim", f"  asked because of: {one_line(question.rule)}")])

    def _whole(self, question: CallQuestion) -> None:
        self._lines(
            [("strong", f"  {question.server}: {one_line(question.tool)}"), indented(exact(question.description or ""))]
        )
        self._lines([("strong", "  input schema:"), indented(as_json(question.input_schema))])

    def _head(self, tone: Any, title: str) -> None:
        self._surface.say()
        self._surface.say((tone, rule(title, self._surface.width)))

    def _lines(self, lines: list[Any]) -> None:
        for line in lines:
            self._surface.say(line)


def difference(text: str) -> list[Part]:
    """A diff with what goes and what comes in colours."""
    tones: dict[str, Any] = {"+": "good", "-": "bad", "@": "dim"}
    return [(tones.get(line[:1], "plain"), f"  {exact(line)}") for line in text.splitlines()]


def _limits(question: SamplingQuestion) -> Part:
    return ("dim", f"  at most {question.params.max_tokens} tokens")
