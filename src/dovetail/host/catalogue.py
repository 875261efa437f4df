"""Catalogue of what all ready servers offer, by name; what is switched off or held back is not in it.

One namespace for what all servers offer: a name for each tool and prompt that depends on nothing but whose it is.

Names are resolved by table, never by taking them apart, and a server is called by its key in the configuration: what
it calls itself, and what other servers there are, changes no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from dovetail.host.consent.definition_review import DefinitionReview
from dovetail.host.servers.bounded_client import ServerFeatures
from dovetail.host.servers.supervisor import ServerSupervisor
from dovetail.policy.user_decisions import ToolSwitches
from dovetail.protocol.names import tool_name, unless_odd
from dovetail.types.prompts import Prompt
from dovetail.types.resources import Resource, ResourceTemplate
from dovetail.types.tools import Tool

MAX_COMMAND = 128

_ODD_IN_COMMAND = re.compile(r"[^A-Za-z0-9_.-]")


class HostTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of one server, under the name that a model calls it by."""

    name: str
    server: str
    tool: Tool
    """As the server describes it; `tool.name` is what the server calls it."""
    digest: str = ""
    """SHA-256 of the definition."""


class HostPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of one server, and the command that gets it."""

    command: str
    server: str
    prompt: Prompt
    digest: str = ""


class HostResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of one server; another may have one with the same URI."""

    server: str
    resource: Resource


class HostTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A resource template of one server."""

    server: str
    template: ResourceTemplate
    digest: str = ""


def prompt_command(server: str, prompt: str) -> str:
    """`/mcp.server.prompt`, with a hash under the same conditions; a key without dots ends at the first."""
    plain = f"mcp.{server}.{prompt}"
    clear = bool(server) and bool(prompt) and "." not in server
    return "/" + unless_odd(plain, clear, _ODD_IN_COMMAND, MAX_COMMAND, (server, prompt))


T = TypeVar("T", HostTool, HostPrompt)


class NameTable(Generic[T]):
    """Tools or prompts by their names in the host."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: dict[str, T] = {}
        for item in items:
            # Two hashes are the same only if somebody has looked for that: the first keeps the name, whoever it is.
            self._items.setdefault(_name(item), item)

    def __len__(self) -> int:
        return len(self._items)

    def find(self, name: str) -> T | None:
        """The item of this name."""
        return self._items.get(name)

    def all(self) -> list[T]:
        """All of them, in their order."""
        return list(self._items.values())


def _name(item: HostTool | HostPrompt) -> str:
    return item.name if isinstance(item, HostTool) else item.command


class Catalogue:
    """Tables of names, made anew when something has changed."""

    def __init__(
        self, servers: Mapping[str, ServerSupervisor], review: DefinitionReview, switches: ToolSwitches
    ) -> None:
        self._servers = servers
        self._review = review
        self._switches = switches
        self._tools: NameTable[HostTool] | None = None
        self._prompts: NameTable[HostPrompt] | None = None
        self._owners: dict[str, str] = {}

    def forget(self) -> None:
        """Something has changed."""
        self._tools = self._prompts = None

    def find_tool(self, name: str) -> HostTool | None:
        """The tool of this name; one that is held back is found too, and has no digest."""
        return self._tool_names().find(name)

    def find_prompt(self, command: str | tuple[str, str]) -> HostPrompt | None:
        """The prompt of this command."""
        name = command if isinstance(command, str) else prompt_command(*command)
        prompt = self._prompt_names().find(name)
        return prompt if prompt is None or isinstance(command, str) or prompt.server == command[0] else None

    def tools(self) -> list[HostTool]:
        """Those that may be offered."""
        return [each for each in self._tool_names().all() if each.digest and self._is_on(each)]

    def switched_off(self) -> list[HostTool]:
        """Those that the user does not want offered."""
        return [each for each in self._tool_names().all() if not self._is_on(each)]

    def prompts(self) -> list[HostPrompt]:
        """Those that may be offered."""
        return [each for each in self._prompt_names().all() if each.digest]

    def resources(self) -> list[HostResource]:
        """All of them, one server after the other."""
        return [
            HostResource(server=key, resource=each)
            for key, features in self._ready_features()
            for each in features.resources
        ]

    def templates(self) -> list[HostTemplate]:
        """Those that may be offered, one server after the other."""
        return [
            HostTemplate(server=key, template=each, digest=digest)
            for key, features in self._ready_features()
            for each in features.templates
            if (digest := self._review.digest(key, "template", each.uri_template)) is not None
        ]

    def instructions(self) -> dict[str, str]:
        """The approved instructions of ready servers."""
        return {
            key: features.instructions
            for key, features in self._ready_features()
            if features.instructions and self._review.digest(key, "instructions", "") is not None
        }

    def owner(self, name: str) -> str | None:
        """The key of the server that has a tool of this name, or had one when it was last ready."""
        return self._owners.get(name)

    def why_not(self, name: str) -> str:
        """The servers that are not ready and might have a tool, for an error message."""
        missing = [
            f"{key!r} is {server.status.state}"
            for key, server in self._servers.items()
            if server.status.state not in ("ready", "disabled")
        ]
        return f"; {', '.join(missing)}" if missing else ""

    def _is_on(self, tool: HostTool) -> bool:
        return self._switches.is_on(tool.server, tool.tool.name)

    def _ready_features(self) -> Iterator[tuple[str, ServerFeatures]]:
        for key, server in self._servers.items():
            if (features := server.features) is not None:
                yield key, features

    def _tool_names(self) -> NameTable[HostTool]:
        if self._tools is None:
            digest = self._review.digest
            self._tools = NameTable(
                HostTool(
                    name=tool_name(key, tool.name),
                    server=key,
                    tool=tool,
                    digest=digest(key, "tool", tool.name) or "",
                )
                for key, features in self._ready_features()
                for tool in features.tools
            )
            self._owners.update((each.name, each.server) for each in self._tools.all())
        return self._tools

    def _prompt_names(self) -> NameTable[HostPrompt]:
        if self._prompts is None:
            digest = self._review.digest
            self._prompts = NameTable(
                HostPrompt(
                    command=prompt_command(key, prompt.name),
                    server=key,
                    prompt=prompt,
                    digest=digest(key, "prompt", prompt.name) or "",
                )
                for key, features in self._ready_features()
                for prompt in features.prompts
            )
        return self._prompts
