"""`/mcp.SERVER.PROMPT`: fill in, review, edit and send a prompt of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dovetail.cli.chat.message_editor import as_draft, read_draft
from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.contract import Interrupted, Row, Suggestion
from dovetail.cli.options.values import read_pairs
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.contents import ContentRenderer
from dovetail.cli.terminal.terminal import InputClosed
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Audio, Image, SamplingContent, Text

from .rendering import indented, one_line, rule

if TYPE_CHECKING:
    from dovetail.host.catalogue import HostPrompt
    from dovetail.types.prompts import PromptArgument, PromptMessage

PREFIX = "/mcp."


class FilledPrompt(NamedTuple):
    """A prompt to send: unchanged, attributed to its server, or edited, attributed to the user (server None)."""

    server: str | None
    messages: Sequence[PromptMessage | SamplingMessage]


async def choose(session: ChatSession) -> FilledPrompt | None:
    """Let the user pick a prompt of all servers and fill it in; None if they do not send it."""
    found = await session.host.prompts()
    rows = [
        Row(each.command, each.server, note=(each.prompt.description or each.prompt.title or "").split("\n")[0])
        for each in found
    ]
    choice = await session.ui.pick("Prompts", rows, {"enter": "fill in"})
    return None if choice is None else await fetch(session, found[choice.row].command, [])


async def fetch(session: ChatSession, command: str, words: list[str]) -> FilledPrompt | None:
    """Get a prompt and let the user review it; None if they do not send it."""
    prompt = next((each for each in await session.host.prompts() if each.command == command), None)
    if prompt is None:
        raise UsageError(f"there is no prompt {command}; type /mcp. to see all")
    try:
        arguments = await _arguments(session, prompt, read_pairs(words))
        result = await session.host.prompt(prompt.command, arguments)
        before = [as_message(message) for message in result.messages]
        after = await _review(session, prompt, before)
        if after is None:
            return None
        return FilledPrompt(prompt.server, result.messages) if after is before else FilledPrompt(None, after)
    except (InputClosed, Interrupted):
        return None


def as_message(message: PromptMessage) -> SamplingMessage:
    """Convert a message of a prompt for the conversation; content that models do not support becomes text."""
    content = message.content
    block: SamplingContent = (
        content if isinstance(content, Text | Image | Audio) else Text(ContentRenderer(None).describe(content))
    )
    return SamplingMessage(message.role, block)


async def _arguments(session: ChatSession, prompt: HostPrompt, given: dict[str, str]) -> dict[str, str]:
    """The given arguments, and what the user enters for the others."""
    wanted = prompt.prompt.arguments or []
    if unknown := given.keys() - {argument.name for argument in wanted}:
        raise UsageError(f"{prompt.command} takes no {', '.join(sorted(unknown))}")
    values = dict(given)
    for argument in wanted:
        if argument.name in values or (given and not argument.required):
            continue
        if text := await _ask_argument(session, prompt, argument, values):
            values[argument.name] = text
    return values


async def _ask_argument(
    session: ChatSession, prompt: HostPrompt, argument: PromptArgument, settled: dict[str, str]
) -> str:
    async def suggest(typed: str) -> Sequence[Suggestion]:
        values = await session.host.complete(
            prompt.server, prompt.prompt.name, argument.name, typed, context=dict(settled)
        )
        return [Suggestion(value, len(typed)) for value in values.values]

    if argument.description:
        session.ui.say(("dim", indented(argument.description)))
    label = f"  {one_line(argument.title or argument.name)}{'' if argument.required else ' (optional)'}: "
    while True:
        text = await session.ui.prompt(label, suggest=suggest)
        if text or not argument.required:
            return text
        session.ui.say("  A value is required.")


async def _review(
    session: ChatSession, prompt: HostPrompt, messages: list[SamplingMessage]
) -> list[SamplingMessage] | None:
    ui = session.ui
    ui.say(("strong", rule(f"{prompt.command} of {prompt.server}", ui.width)))
    while True:
        ui.say(indented(as_draft(messages)))
        key = await ui.key({"y": "send", "e": "edit", "n": "cancel"})
        if key != "e":
            return messages if key == "y" else None
        text = await ui.edit(as_draft(messages), "the messages")
        if text is None:
            continue
        try:
            _, messages = read_draft(text, messages)
        except ValueError as problem:
            ui.say(("bad", f"  {problem}"))
