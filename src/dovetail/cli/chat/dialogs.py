"""Approval dialogs: questions of the host to the user, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.cli.chat.ui.colours import Part
from dovetail.cli.chat.ui.contract import ChatUI, Interrupted
from dovetail.cli.chat.views.launches import launch_description, launch_verb
from dovetail.cli.chat.views.rendering import as_json, exact, indented, one_line, quoted, rule, wrapped
from dovetail.cli.terminal.terminal import InputClosed
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
from dovetail.protocol.errors import LocalError
from dovetail.runtime.thread_pool import run_in_thread

from .message_editor import as_draft, edited_answer, edited_params, words_of

_REMEMBER: dict[str, Remember] = {"y": "once", "s": "session", "a": "always"}
_YES = {"y": "once", "s": "this session", "a": "always"}
_NO = {"n": "no", "w": "no, because…"}
_PAUSE = 0.02
"""Seconds in which pending output can appear before the question."""
_ROOM = 6
"""Lines of a description shown at first."""


class ApprovalDialogs:
    """Asks the user for approval; `approve` is the host's `on_approve`.

    A question that the host withdraws is cancelled, which prints a line. Ctrl-C refuses, and cancels the call that
    the question belongs to.
    """

    def __init__(self, ui: ChatUI, interrupt: Callable[[], None]) -> None:
        self._ui = ui
        self._interrupt = interrupt

    async def approve(self, question: Question) -> Reply:
        """Ask the user."""
        await asyncio.sleep(_PAUSE)
        async with self._ui.question():
            try:
                return await self._dispatch(question)
            except InputClosed:
                return No(reason="The user closed the question.")
            except Interrupted:
                self._interrupt()
                return No(reason="The user cancelled the call.")
            except asyncio.CancelledError:
                self._ui.say(("dim", f"  (the question of {quoted(question.server)} was withdrawn)"))
                raise

    async def _dispatch(self, question: Question) -> Reply:
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
        self._head("warn", f"May {quoted(question.server)} be {launch_verb(question.spec)}?")
        self._lines(launch_description(question))
        return await self._reply({**_YES, **_NO})

    async def _call(self, question: CallQuestion) -> Reply:
        edited: dict[str, Any] | None = None
        self._head("warn", f"May the tool {quoted(question.tool)} of {quoted(question.server)} be called?")
        self._show_description(question)
        keys = {**_YES, "e": "edit", "v": "whole definition", **_NO}
        while True:
            arguments = question.arguments if edited is None else edited
            self._lines(
                [("strong", f"  arguments{'' if edited is None else ', edited'}:"), indented(as_json(arguments), "  ")]
            )
            key = await self._ui.key(keys)
            if key == "e":
                changed = await self._edited_arguments(question, arguments)
                edited = None if changed == question.arguments else changed
            elif key == "v":
                self._show_definition(question)
            elif key in _REMEMBER:
                return Yes(remember=_REMEMBER[key], arguments=edited)
            else:
                return await self._refusal(key)

    async def _sampling(self, question: SamplingQuestion) -> Reply:
        params = question.params
        self._head("warn", f"May {quoted(question.server)} ask the model {quoted(question.model)}?")
        keys = {**_YES, "e": "edit", **_NO}
        if question.wants_context:
            self._lines([("bad", f"  It also requests the conversation ({params.include_context}).")])
            keys = {"y": "once, without the conversation", "c": "once, with it", "e": "edit", **_NO}
        while True:
            self._lines([indented(exact(as_draft(params.messages, params.system_prompt))), _limits(question)])
            if params.tools:
                self._lines([f"  tools for the model: {', '.join(one_line(tool.name) for tool in params.tools)}"])
            key = await self._ui.key(keys)
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
        self._head("warn", f"May {quoted(question.server)} see what the model said?")
        while True:
            self._lines([indented(exact(words_of(answer.content))), ("dim", f"  from {answer.model}")])
            key = await self._ui.key({**_YES, "e": "edit", **_NO})
            if key == "e":
                answer = await self._edited(answer.text, answer, edited_answer)
            elif key in _REMEMBER:
                return Yes(remember=_REMEMBER[key], answer=None if answer is question.answer else answer)
            else:
                return await self._refusal(key)

    async def _roots(self, question: RootsQuestion) -> Reply:
        self._head("warn", f"May {quoted(question.server)} know of these folders?")
        self._lines([f"  {one_line(root)}" for root in question.roots])
        return await self._reply({**_YES, **_NO})

    async def _definition(self, question: DefinitionQuestion) -> Reply:
        what = "the instructions" if question.kind == "instructions" else f"the {question.kind} {quoted(question.name)}"
        self._head("bad", f"{quoted(question.server)}: {what} {_state_of(question)}. Accept it?")
        self._lines([("bad", f"  ! {one_line(concern)}") for concern in question.concerns])
        self._lines(difference(question.difference))
        return await self._reply({"y": "accept", **_NO})

    async def _reply(self, keys: dict[str, str]) -> Reply:
        key = await self._ui.key(keys)
        return Yes(remember=_REMEMBER[key]) if key in _REMEMBER else await self._refusal(key)

    async def _refusal(self, key: str) -> No:
        return No(reason=await self._ui.prompt("Why not? ") if key == "w" else "")

    async def _edited(self, text: str, value: Any, read: Callable[[Any, str], Any]) -> Any:
        """Let the user edit a value until it is valid."""
        while True:
            changed = await self._ui.edit(text, "the text")
            if changed is None or changed == text:
                return value
            try:
                # In a thread: it may compile a schema that a server wrote.
                return await run_in_thread(read, value, changed)
            except ValueError as problem:
                self._ui.say(("bad", f"  {problem}"))
                text = changed

    async def _edited_arguments(self, question: CallQuestion, arguments: dict[str, Any]) -> dict[str, Any]:
        def read(_: object, text: str) -> dict[str, Any]:
            from dovetail.schema.validation import compile_schema

            try:
                changed = msgspec.json.decode(text, type=dict[str, Any])
            except (msgspec.MsgspecError, RecursionError) as problem:
                raise ValueError(f"this is not a JSON object: {problem}") from None
            try:
                validator = compile_schema(question.input_schema) if question.input_schema else None
            except LocalError:
                return changed  # a schema that cannot be used checks nothing; the server will
            if validator is not None and not validator.is_valid(changed):
                raise ValueError("; ".join(validator.problems(changed)))
            return changed

        return await self._edited(as_json(arguments), arguments, read)

    def _show_description(self, question: CallQuestion) -> None:
        if question.title:
            self._lines([f"  title: {one_line(question.title)}"])
        if question.description:
            lines = wrapped(question.description, self._ui.width).split("\n")
            more = [("dim", "  (v shows all of it)")] if len(lines) > _ROOM else []
            self._lines(["\n".join(lines[:_ROOM]), *more])
        if question.rule:
            self._lines([("dim", f"  asked because of: {one_line(question.rule)}")])

    def _show_definition(self, question: CallQuestion) -> None:
        self._lines(
            [
                ("strong", f"  {quoted(question.server)}: {quoted(question.tool)}"),
                indented(exact(question.description or "")),
            ]
        )
        self._lines([("strong", "  input schema:"), indented(as_json(question.input_schema))])

    def _head(self, tone: Any, title: str) -> None:
        self._ui.say()
        self._ui.say((tone, rule(title, self._ui.width)))

    def _lines(self, lines: list[Any]) -> None:
        for line in lines:
            self._ui.say(line)


def difference(text: str) -> list[Part]:
    """A diff with coloured lines."""
    tones: dict[str, Any] = {"+": "good", "-": "bad", "@": "dim"}
    return [(tones.get(line[:1], "plain"), f"  {exact(line)}") for line in text.splitlines()]


def _state_of(question: DefinitionQuestion) -> str:
    """The reason for the question: a definition that is new, has changed, or looks suspicious."""
    is_plural = question.kind == "instructions"
    said: list[str] = []
    if question.status == "new":
        said.append("are new" if is_plural else "is new")
    elif question.status == "changed":
        said.append("have changed" if is_plural else "has changed")
    if question.concerns:
        said.append("look suspicious" if is_plural else "looks suspicious")
    return " and ".join(said)


def _limits(question: SamplingQuestion) -> Part:
    return ("dim", f"  at most {question.params.max_tokens} tokens")
