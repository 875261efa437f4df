"""What all ready servers offer together, by name; what is switched off or held back is not in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.policy.switches import Switches

from .listing import Offer
from .namespace import (
    HostPrompt,
    HostResource,
    HostTemplate,
    HostTool,
    Names,
    prompt_command,
    tool_name,
)
from .quarantine import Quarantine
from .supervision import Supervised


class Roster:
    """Tables of names, made anew when something has changed."""

    def __init__(self, servers: Mapping[str, Supervised], quarantine: Quarantine, switches: Switches) -> None:
        self._servers = servers
        self._quarantine = quarantine
        self._switches = switches
        self._tools: Names[HostTool] | None = None
        self._prompts: Names[HostPrompt] | None = None
        self._owners: dict[str, str] = {}

    def forget(self) -> None:
        """Something has changed."""
        self._tools = self._prompts = None

    def find_tool(self, name: str) -> HostTool | None:
        """Whose tool it is; one that is held back is found too, and has no digest."""
        return self._tool_names().find(name)

    def find_prompt(self, command: str | tuple[str, str]) -> HostPrompt | None:
        """Whose prompt it is."""
        name = command if isinstance(command, str) else prompt_command(*command)
        found = self._prompt_names().find(name)
        return found if found is None or isinstance(command, str) or found.server == command[0] else None

    def tools(self) -> list[HostTool]:
        """Those that may be offered."""
        return [each for each in self._tool_names().all() if each.digest and self._is_on(each)]

    def switched_off(self) -> list[HostTool]:
        """Those that the person does not want offered."""
        return [each for each in self._tool_names().all() if not self._is_on(each)]

    def prompts(self) -> list[HostPrompt]:
        """Those that may be offered."""
        return [each for each in self._prompt_names().all() if each.digest]

    def resources(self) -> list[HostResource]:
        """All of them, one server after the other."""
        return [HostResource(server=key, resource=each) for key, offer in self._offers() for each in offer.resources]

    def templates(self) -> list[HostTemplate]:
        """Those that may be offered, one server after the other."""
        return [
            HostTemplate(server=key, template=each, digest=digest)
            for key, offer in self._offers()
            for each in offer.templates
            if (digest := self._quarantine.digest(key, "template", each.uri_template)) is not None
        ]

    def instructions(self) -> dict[str, str]:
        """What ready servers say of how to use them, as far as it was approved."""
        return {
            key: offer.instructions
            for key, offer in self._offers()
            if offer.instructions and self._quarantine.digest(key, "instructions", "") is not None
        }

    def owner(self, name: str) -> str | None:
        """The key of the server that has a tool of this name, or had one when it was last ready."""
        return self._owners.get(name)

    def why_not(self, name: str) -> str:
        """Which servers are not there that might have a tool, for an error."""
        missing = [
            f"{key!r} is {server.status.state}"
            for key, server in self._servers.items()
            if server.status.state not in ("ready", "disabled")
        ]
        return f"; {', '.join(missing)}" if missing else ""

    def _is_on(self, tool: HostTool) -> bool:
        return self._switches.is_on(tool.server, tool.tool.name)

    def _offers(self) -> Iterator[tuple[str, Offer]]:
        for key, server in self._servers.items():
            if (offer := server.offer) is not None:
                yield key, offer

    def _tool_names(self) -> Names[HostTool]:
        if self._tools is None:
            digest = self._quarantine.digest
            self._tools = Names(
                HostTool(
                    name=tool_name(key, tool.name),
                    server=key,
                    tool=tool,
                    digest=digest(key, "tool", tool.name) or "",
                )
                for key, offer in self._offers()
                for tool in offer.tools
            )
            self._owners.update((each.name, each.server) for each in self._tools.all())
        return self._tools

    def _prompt_names(self) -> Names[HostPrompt]:
        if self._prompts is None:
            digest = self._quarantine.digest
            self._prompts = Names(
                HostPrompt(
                    command=prompt_command(key, prompt.name),
                    server=key,
                    prompt=prompt,
                    digest=digest(key, "prompt", prompt.name) or "",
                )
                for key, offer in self._offers()
                for prompt in offer.prompts
            )
        return self._prompts
