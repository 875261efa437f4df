"""`/mcp.server.prompt`: a server's prompt, filled in, looked at and perhaps changed before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dovetail.cli.chat.message_editor import as_draft, read_draft
from dovetail.cli.chat.session import Session
from dovetail.cli.chat.ui.contract import Interrupted, Suggestion
from dovetail.cli.options.values import read_pairs
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.contents import Keeper
from dovetail.cli.terminal.terminal import Closed
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Audio, Image, SamplingContent, Text

from .rendering import indented, one_line, rule

if TYPE_CHECKING:
    from dovetail.host.catalogue import HostPrompt
    from dovetail.types.prompts import PromptArgument, PromptMessage

PREFIX = "/mcp."


class Filled(NamedTuple):
    """A prompt that is to be sent: as it is, in the name of its server, or as the person changed it, in theirs."""

    server: str | None
    messages: Sequence[PromptMessage | SamplingMessage]


async def fetch(session: Session, command: str, words: list[str]) -> Filled | None:
    """The messages of a prompt as the person wants to send them; None where they do not."""
    found = next((each for each in await session.host.prompts() if each.command == command), None)
    if found is None:
        raise UsageError(f"there is no prompt {command}; type /mcp. to see those that there are")
    try:
        arguments = await _arguments(session, found, read_pairs(words))
        result = await session.host.prompt(found.command, arguments)
        before = [as_message(message) for message in result.messages]
        after = await _looked_at(session, found, before)
        if after is None:
            return None
        return Filled(found.server, result.messages) if after is before else Filled(None, after)
    except (Closed, Interrupted):
        return None


def as_message(message: PromptMessage) -> SamplingMessage:
    """A message of a prompt as one of the conversation: what a model cannot take is put in words."""
    content = message.content
    block: SamplingContent = (
        content if isinstance(content, Text | Image | Audio) else Text(Keeper(None).describe(content))
    )
    return SamplingMessage(message.role, block)


async def _arguments(session: Session, found: HostPrompt, given: dict[str, str]) -> dict[str, str]:
    """What is given, and what the person says to the rest."""
    wanted = found.prompt.arguments or []
    if unknown := given.keys() - {argument.name for argument in wanted}:
        raise UsageError(f"{found.command} takes no {', '.join(sorted(unknown))}")
    values = dict(given)
    for argument in wanted:
        if argument.name in values or (given and not argument.required):
            continue
        if text := await _ask(session, found, argument, values):
            values[argument.name] = text
    return values


async def _ask(session: Session, found: HostPrompt, argument: PromptArgument, settled: dict[str, str]) -> str:
    async def suggest(typed: str) -> Sequence[Suggestion]:
        values = await session.host.complete(
            found.server, found.prompt.name, argument.name, typed, context=dict(settled)
        )
        return [Suggestion(value, len(typed)) for value in values.values]

    if argument.description:
        session.surface.say(("dim", indented(argument.description)))
    label = f"  {one_line(argument.title or argument.name)}{'' if argument.required else ' (optional)'}: "
    while True:
        text = await session.surface.ask(label, suggest=suggest)
        if text or not argument.required:
            return text
        session.surface.say("  An answer is needed here.")


async def _looked_at(
    session: Session, found: HostPrompt, messages: list[SamplingMessage]
) -> list[SamplingMessage] | None:
    surface = session.surface
    surface.say(("strong", rule(f"{found.command} of {found.server}", surface.width)))
    while True:
        surface.say(indented(as_draft(messages)))
        key = await surface.key({"y": "send", "e": "edit", "n": "leave it"})
        if key != "e":
            return messages if key == "y" else None
        text = await surface.edit(as_draft(messages), "the messages")
        if text is None:
            continue
        try:
            _, messages = read_draft(text, messages)
        except ValueError as problem:
            surface.say(("bad", f"  {problem}"))
