"""What a client has to do only because its server is behind HTTP: headers that repeat arguments, and sessions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from dovetail.protocol.names import header_paths
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.tools import Tool

logger = logging.getLogger("dovetail")

Paths: TypeAlias = "Mapping[tuple[str, ...], str]"


@runtime_checkable
class RevisionAwareChannel(Protocol):
    """A channel that goes by the revision."""

    def agreed(self, revision: Revision) -> None:
        """Both sides have agreed on a revision."""
        ...


@runtime_checkable
class StreamableHttpChannel(Protocol):
    """A channel over Streamable HTTP."""

    header_arguments: Mapping[str, Paths]
    """Which arguments of which tools are repeated in headers."""
    ended_session: str | None
    """The session that the server has ended and that none has followed yet."""

    async def wait_for_get_stream(self) -> None:
        """Wait, within bounds, until the server can send what answers no request."""
        ...


def learn_header_arguments(tools: Sequence[Tool], channel: StreamableHttpChannel, revision: Revision) -> list[Tool]:
    """The tools that can be called over HTTP; the channel learns which of their arguments go into headers.

    A tool whose annotations are invalid is left out, and a warning says why (2026-07-28 Streamable HTTP, "Custom
    Headers from Tool Parameters"). Numbers could be mirrored in the draft that was a handshake revision.
    """
    usable: list[Tool] = []
    mirrored: dict[str, Paths] = {}
    numbers = revision.era == "handshake"
    for tool in tools:
        try:
            paths = header_paths(tool.input_schema, numbers=numbers)
        except ValueError as problem:
            logger.warning("The tool %r is left out: %s", tool.name, problem)
            continue
        usable.append(tool)
        if paths:
            mirrored[tool.name] = paths
    channel.header_arguments = mirrored
    return usable
