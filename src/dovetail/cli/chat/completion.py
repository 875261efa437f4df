"""Completion of the input line: commands, tools, resources, prompts and their arguments."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dovetail.cli.chat.ui.contract import Suggestion
from dovetail.cli.chat.views.prompts import PREFIX
from dovetail.cli.chat.views.resources import suggest_mentions

from .session import ChatSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dovetail.host.catalogue import HostPrompt

_PATIENCE = 0.3
_RESOURCE_COMMANDS = ("/open", "/attach", "/save", "/watch")
_SERVER_COMMANDS = ("/log", "/traffic", *_RESOURCE_COMMANDS)


class ChatCompletion:
    """Completes the input line."""

    def __init__(self, session: ChatSession, commands: Mapping[str, str]) -> None:
        self._session = session
        self._commands = commands
        """Command to description."""

    async def suggest(self, typed: str) -> Sequence[Suggestion]:
        """Suggestions at the cursor; none in a message for the model."""
        if not typed.startswith("/"):
            return await suggest_mentions(self._session, typed)
        word, space, rest = typed.partition(" ")
        if not space:
            return await self._command_names(word)
        if word.startswith(PREFIX):
            prompt = next((each for each in await self._session.host.prompts() if each.command == word), None)
            return () if prompt is None else await self._arguments(prompt, rest)
        if word == "/call" and " " not in rest:
            tools = await self._session.host.tools()
            return [
                Suggestion(tool.name, len(rest), tool.tool.title or tool.tool.description or "")
                for tool in tools
                if tool.name.lower().startswith(rest.lower()) or tool.tool.name.lower().startswith(rest.lower())
            ]
        if word in _SERVER_COMMANDS and " " not in rest:
            return _matching(rest, [(key, status.state) for key, status in self._session.host.servers.items()])
        if word in _RESOURCE_COMMANDS:
            return await self._resources(rest)
        return ()

    async def _resources(self, rest: str) -> list[Suggestion]:
        """URIs of the server named in the line."""
        server, space, uri = rest.partition(" ")
        if not space or " " in uri:
            return []
        resources = [each.resource for each in await self._session.host.resources() if each.server == server]
        return _matching(uri, [(resource.uri, resource.title or resource.name) for resource in resources])

    async def _command_names(self, word: str) -> list[Suggestion]:
        prompts: list[tuple[str, str]] = []
        with contextlib.suppress(TimeoutError):  # do not wait for servers that start slowly
            async with asyncio.timeout(_PATIENCE):
                prompts = [(each.command, each.prompt.description or "") for each in await self._session.host.prompts()]
        return _matching(word, [*self._commands.items(), *prompts])

    async def _arguments(self, prompt: HostPrompt, rest: str) -> list[Suggestion]:
        """Names of arguments, or values suggested by the server."""
        settled, last = _split_typed(rest)
        pairs = [word.partition("=") for word in settled]
        given = {name: value for name, sign, value in pairs if sign}
        name, sign, value = last.partition("=")
        if sign:
            context = {each: text for each, text in given.items() if each != name}
            answer = await self._session.host.complete(prompt.server, prompt.prompt.name, name, value, context=context)
            return [Suggestion(_quoted(text), len(value)) for text in answer.values]
        names = [
            (f"{each.name}=", each.description or "")
            for each in prompt.prompt.arguments or []
            if each.name not in given
        ]
        return _matching(last, names)


def _matching(word: str, candidates: Sequence[tuple[str, str]]) -> list[Suggestion]:
    low = word.lower()
    return [Suggestion(text, len(word), about) for text, about in candidates if text.lower().startswith(low)]


def _split_typed(rest: str) -> tuple[list[str], str]:
    """The complete words, and the one being typed."""
    import shlex

    done, _, last = rest.rpartition(" ")
    try:
        return shlex.split(done), last
    except ValueError:  # an open quote
        return [], ""


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text) if any(char in " \t'\"\\" for char in text) else text
