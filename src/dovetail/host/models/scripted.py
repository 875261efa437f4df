"""A model that says what a script tells it to, without a network: for demonstrations and tests."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.protocol.sampling import blocks_of
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage
from dovetail.types.content import SamplingContent, Text, ToolUse

from .contract import ModelEvent, TextDelta, Traits
from .usage import usage_meta

_PIECES = re.compile(r"\S+\s*|\s+")
SILENT = "(The script has nothing more to say.)"


class ScriptToolUse(msgspec.Struct, frozen=True):
    """A tool that the model wants called."""

    name: str
    arguments: dict[str, Any] = {}


class ScriptStep(msgspec.Struct, frozen=True):
    """One answer: a text, tools to call, or both."""

    say: str = ""
    use: tuple[ScriptToolUse, ...] = ()


ScriptLine: TypeAlias = "ScriptStep | str | Callable[[CreateMessageParams], ScriptStep | str]"
"""An answer, its text alone, or a function that makes one of what the model is asked."""


class ScriptedModel:
    """Answers from a script: by words in what the user said last, the steps of what then happens.

    The first words, in the order given, that the user's last message holds choose the steps; `""` fits everything.
    The first step answers the user, the next one the results of the tools that it wanted, and so on; without words
    (a plain list) the steps are taken one after the other over the whole conversation. It keeps no state.
    """

    def __init__(
        self,
        script: Mapping[str, Sequence[ScriptLine]] | Sequence[ScriptLine],
        *,
        name: str = "scripted",
        traits: Traits | None = None,
        pause: float = 0.0,
    ) -> None:
        """`pause` is the time between two pieces of text, so that people can watch it think."""
        self._scenes = script if isinstance(script, Mapping) else None
        self._steps = () if isinstance(script, Mapping) else script
        self._name = name
        self._traits = traits or Traits()
        self._pause = pause

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """A script from a JSON file: `{"words": [{"say": "…", "use": [{"name": "…", "arguments": {…}}]}]}`."""
        try:
            script = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, list[ScriptStep]])
        except (OSError, msgspec.DecodeError) as problem:
            raise LocalError(f"The script {os.fspath(path)} cannot be read: {problem}") from None
        return cls(script, **options)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def traits(self) -> Traits:
        """Its traits, for servers' preferences."""
        return self._traits

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        """Give the answer that the script has for this point of a conversation."""
        step = self._step(params)
        for piece in _PIECES.findall(step.say):
            await asyncio.sleep(self._pause)
            yield TextDelta(piece)
        if not step.say:
            await asyncio.sleep(self._pause)
        yield self._answer(params, step)

    async def close(self) -> None:
        """Nothing to close."""

    def _step(self, params: CreateMessageParams) -> ScriptStep:
        said, since = _last_said(params.messages)
        if self._scenes is None:
            steps, place = self._steps, sum(message.role == "assistant" for message in params.messages)
        else:
            folded = said.casefold()
            steps = next((steps for words, steps in self._scenes.items() if words.casefold() in folded), ())
            place = since
        line = steps[place] if place < len(steps) else SILENT
        if callable(line):
            line = line(params)
        return line if isinstance(line, ScriptStep) else ScriptStep(line)

    def _answer(self, params: CreateMessageParams, step: ScriptStep) -> CreateMessageResult:
        tools_off = params.tool_choice is not None and params.tool_choice.mode == "none"
        wanted = () if tools_off else step.use
        blocks: list[SamplingContent] = [Text(text=step.say)] if step.say or not wanted else []
        blocks += [
            ToolUse(id=f"call_{len(params.messages)}_{number}", name=use.name, input=use.arguments)
            for number, use in enumerate(wanted)
        ]
        read = sum(len(block.text) for message in params.messages for block in _texts(message))
        return CreateMessageResult(
            role="assistant",
            content=blocks,
            model=self._name,
            stop_reason="toolUse" if wanted else "endTurn",
            meta=usage_meta(read // 4, len(step.say) // 4),
        )


def _last_said(messages: Sequence[SamplingMessage]) -> tuple[str, int]:
    """The last message of the user, and the number of answers since."""
    answers = 0
    for message in reversed(messages):
        if message.role == "assistant":
            answers += 1
        elif words := [block.text for block in _texts(message)]:
            return "\n".join(words), answers
    return "", answers


def _texts(message: SamplingMessage) -> list[Text]:
    return [block for block in blocks_of(message.content) if isinstance(block, Text)]
