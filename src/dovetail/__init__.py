"""Dovetail: the Model Context Protocol for Python, every revision of it, as server and as client.

Importing this package costs almost nothing: each public name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dovetail.auth.errors import AuthorizationFailed, LoginNeeded
    from dovetail.auth.verify import Principal
    from dovetail.client.accounts import FileTokens, default_tokens
    from dovetail.client.client import Client
    from dovetail.client.oauth import OAuth
    from dovetail.client.questions import Elicitation
    from dovetail.client.ways import ClientCredentials
    from dovetail.host.config.reading import read_config
    from dovetail.host.entries import ServerEntry
    from dovetail.host.host import Host
    from dovetail.host.models.contract import Model
    from dovetail.host.models.failures import ModelFailed
    from dovetail.host.secrets import Secrets
    from dovetail.policy.audit import Audit
    from dovetail.policy.launch import LaunchSpec
    from dovetail.policy.questions import No, Yes
    from dovetail.policy.rules import Policy, Rule
    from dovetail.protocol.errors import (
        ConnectionLost,
        DovetailError,
        InvalidAnswer,
        LocalError,
        MissingCapability,
        NotFound,
        Overtaken,
        ProtocolError,
        Refused,
        RemoteError,
        StepFailed,
        Timeout,
        ToolError,
        ToolFailed,
        URLElicitationRequired,
    )
    from dovetail.protocol.extension import Extension
    from dovetail.protocol.sampling import match_model
    from dovetail.server.app import Server
    from dovetail.server.context import Context
    from dovetail.server.http.journal import RequestIds
    from dovetail.server.signatures.param import Param
    from dovetail.server.verifying import Introspection, JWTVerifier, StaticTokens, Verifier
    from dovetail.transports.base import Channel, Receiver
    from dovetail.transports.http_contract import HttpOptions
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
    from dovetail.types.interaction import (
        CreateMessageParams,
        CreateMessageResult,
        InputRequired,
        Root,
        SamplingMessage,
    )
    from dovetail.types.messages import Completion
    from dovetail.types.prompts import PromptMessage
    from dovetail.types.tools import CallToolResult

__version__ = "0.1.0"

_HOMES = {
    "Annotations": "types.content",
    "Audio": "types.content",
    "Audit": "policy.audit",
    "AuthorizationFailed": "auth.errors",
    "BlobContents": "types.content",
    "CallToolResult": "types.tools",
    "Channel": "transports.base",
    "Client": "client.client",
    "ClientCredentials": "client.ways",
    "Completion": "types.messages",
    "ConnectionLost": "protocol.errors",
    "Context": "server.context",
    "CreateMessageParams": "types.interaction",
    "CreateMessageResult": "types.interaction",
    "default_tokens": "client.accounts",
    "DovetailError": "protocol.errors",
    "Elicitation": "client.questions",
    "Embedded": "types.content",
    "Extension": "protocol.extension",
    "FileTokens": "client.accounts",
    "Host": "host.host",
    "HttpOptions": "transports.http_contract",
    "Icon": "types.capabilities",
    "Image": "types.content",
    "Implementation": "types.capabilities",
    "InputRequired": "types.interaction",
    "Introspection": "server.verifying",
    "InvalidAnswer": "protocol.errors",
    "JWTVerifier": "server.verifying",
    "LaunchSpec": "policy.launch",
    "LocalError": "protocol.errors",
    "LoginNeeded": "auth.errors",
    "match_model": "protocol.sampling",
    "MissingCapability": "protocol.errors",
    "Model": "host.models.contract",
    "ModelFailed": "host.models.failures",
    "No": "policy.questions",
    "NotFound": "protocol.errors",
    "OAuth": "client.oauth",
    "Overtaken": "protocol.errors",
    "Param": "server.signatures.param",
    "Policy": "policy.rules",
    "Principal": "auth.verify",
    "PromptMessage": "types.prompts",
    "ProtocolError": "protocol.errors",
    "read_config": "host.config.reading",
    "Receiver": "transports.base",
    "Refused": "protocol.errors",
    "RemoteError": "protocol.errors",
    "RequestIds": "server.http.journal",
    "ResourceLink": "types.content",
    "Root": "types.interaction",
    "Rule": "policy.rules",
    "SamplingMessage": "types.interaction",
    "Secrets": "host.secrets",
    "Server": "server.app",
    "ServerEntry": "host.entries",
    "StaticTokens": "server.verifying",
    "StepFailed": "protocol.errors",
    "Text": "types.content",
    "TextContents": "types.content",
    "Timeout": "protocol.errors",
    "ToolError": "protocol.errors",
    "ToolFailed": "protocol.errors",
    "URLElicitationRequired": "protocol.errors",
    "Verifier": "server.verifying",
    "Yes": "policy.questions",
}

__all__ = [
    "Annotations",
    "Audio",
    "Audit",
    "AuthorizationFailed",
    "BlobContents",
    "CallToolResult",
    "Channel",
    "Client",
    "ClientCredentials",
    "Completion",
    "ConnectionLost",
    "Context",
    "CreateMessageParams",
    "CreateMessageResult",
    "DovetailError",
    "Elicitation",
    "Embedded",
    "Extension",
    "FileTokens",
    "Host",
    "HttpOptions",
    "Icon",
    "Image",
    "Implementation",
    "InputRequired",
    "Introspection",
    "InvalidAnswer",
    "JWTVerifier",
    "LaunchSpec",
    "LocalError",
    "LoginNeeded",
    "MissingCapability",
    "Model",
    "ModelFailed",
    "No",
    "NotFound",
    "OAuth",
    "Overtaken",
    "Param",
    "Policy",
    "Principal",
    "PromptMessage",
    "ProtocolError",
    "Receiver",
    "Refused",
    "RemoteError",
    "RequestIds",
    "ResourceLink",
    "Root",
    "Rule",
    "SamplingMessage",
    "Secrets",
    "Server",
    "ServerEntry",
    "StaticTokens",
    "StepFailed",
    "Text",
    "TextContents",
    "Timeout",
    "ToolError",
    "ToolFailed",
    "URLElicitationRequired",
    "Verifier",
    "Yes",
    "default_tokens",
    "match_model",
    "read_config",
]


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are imported from their modules when they are first used."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib
        import sys

        value = getattr(importlib.import_module(f"dovetail.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
