"""Dovetail: the Model Context Protocol for Python, every revision of it, as server and as client.

Importing this package costs almost nothing: each public name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.client.client import Client
    from dovetail.protocol.errors import (
        ConnectionLost,
        DovetailError,
        InvalidAnswer,
        LocalError,
        NotFound,
        ProtocolError,
        Refused,
        RemoteError,
        Timeout,
        ToolError,
        ToolFailed,
    )
    from dovetail.protocol.extension import Extension
    from dovetail.server.app import Server
    from dovetail.server.context import Context
    from dovetail.server.signatures.param import Param
    from dovetail.types.capabilities import Icon, Implementation
    from dovetail.types.content import (
        Annotations,
        Audio,
        BlobContents,
        Embedded,
        Image,
        ResourceLink,
        Text,
        TextContents,
    )
    from dovetail.types.prompts import PromptMessage
    from dovetail.types.tools import CallToolResult

__version__ = "0.1.0"

_HOMES = {
    "Annotations": "types.content",
    "Audio": "types.content",
    "BlobContents": "types.content",
    "CallToolResult": "types.tools",
    "Client": "client.client",
    "ConnectionLost": "protocol.errors",
    "Context": "server.context",
    "DovetailError": "protocol.errors",
    "Embedded": "types.content",
    "Extension": "protocol.extension",
    "Icon": "types.capabilities",
    "Image": "types.content",
    "Implementation": "types.capabilities",
    "InvalidAnswer": "protocol.errors",
    "LocalError": "protocol.errors",
    "NotFound": "protocol.errors",
    "Param": "server.signatures.param",
    "PromptMessage": "types.prompts",
    "ProtocolError": "protocol.errors",
    "Refused": "protocol.errors",
    "RemoteError": "protocol.errors",
    "ResourceLink": "types.content",
    "Server": "server.app",
    "Text": "types.content",
    "TextContents": "types.content",
    "Timeout": "protocol.errors",
    "ToolError": "protocol.errors",
    "ToolFailed": "protocol.errors",
}

__all__ = [
    "Annotations",
    "Audio",
    "BlobContents",
    "CallToolResult",
    "Client",
    "ConnectionLost",
    "Context",
    "DovetailError",
    "Embedded",
    "Extension",
    "Icon",
    "Image",
    "Implementation",
    "InvalidAnswer",
    "LocalError",
    "NotFound",
    "Param",
    "PromptMessage",
    "ProtocolError",
    "Refused",
    "RemoteError",
    "ResourceLink",
    "Server",
    "Text",
    "TextContents",
    "Timeout",
    "ToolError",
    "ToolFailed",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dovetail' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"dovetail.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
