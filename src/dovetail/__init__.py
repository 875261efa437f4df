"""Dovetail: the Model Context Protocol for Python, every revision of it, as server and as client.

Importing this package costs almost nothing: each public name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dovetail.auth.errors import AuthorizationFailed, LoginNeeded
    from dovetail.auth.token_verification import Principal
    from dovetail.client.auth.grants import ClientCredentials
    from dovetail.client.auth.oauth import OAuth
    from dovetail.client.auth.token_store import FileTokens, default_tokens
    from dovetail.client.client import Client
    from dovetail.client.elicitation import Elicitation
    from dovetail.client.targets.secrets import Secrets
    from dovetail.client.tasks.state import TaskUpdate
    from dovetail.client.tasks.task import Task
    from dovetail.config.entries import ServerEntry
    from dovetail.config.launch_spec import LaunchSpec
    from dovetail.config.reader import read_config
    from dovetail.gateway.gateway import Gateway
    from dovetail.host.host import Host
    from dovetail.host.models.contract import Model
    from dovetail.host.models.errors import ModelFailed
    from dovetail.policy.approval_questions import No, Yes
    from dovetail.policy.audit.log import Audit
    from dovetail.policy.rules import Policy, Rule
    from dovetail.protocol.errors import (
        ConnectionLost,
        DovetailError,
        InvalidAnswer,
        InvalidParams,
        LocalError,
        MissingCapability,
        NotFound,
        OutcomeUnknown,
        Overtaken,
        ProtocolError,
        Refused,
        RemoteError,
        StepFailed,
        TaskCancelled,
        TaskNotFound,
        Timeout,
        ToolError,
        ToolFailed,
        URLElicitationRequired,
    )
    from dovetail.protocol.extension import Extension
    from dovetail.protocol.sampling import match_model
    from dovetail.schema.hints.param import Param
    from dovetail.server.app import Server
    from dovetail.server.auth.verifiers import Introspection, JWTVerifier, StaticTokens, Verifier
    from dovetail.server.context import Context
    from dovetail.server.features.handles import Handles
    from dovetail.server.http.access_log import RequestIds
    from dovetail.server.mrtr.client_requests import Answer
    from dovetail.server.sync_context import SyncContext
    from dovetail.transports.base import Channel, Receiver
    from dovetail.transports.http.contract import HttpOptions
    from dovetail.types.capabilities import Icon, Implementation
    from dovetail.types.client_features import (
        CreateMessageParams,
        CreateMessageResult,
        InputRequired,
        Root,
        SamplingMessage,
    )
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
    from dovetail.types.messages import Completion
    from dovetail.types.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage
    from dovetail.types.resources import Resource, ResourceTemplate
    from dovetail.types.tools import CallToolResult, Tool, ToolAnnotations

__version__ = "0.1.0"

_HOMES = {
    "Annotations": "types.content",
    "Answer": "server.mrtr.client_requests",
    "Audio": "types.content",
    "Audit": "policy.audit.log",
    "AuthorizationFailed": "auth.errors",
    "BlobContents": "types.content",
    "CallToolResult": "types.tools",
    "Channel": "transports.base",
    "Client": "client.client",
    "ClientCredentials": "client.auth.grants",
    "Completion": "types.messages",
    "ConnectionLost": "protocol.errors",
    "Context": "server.context",
    "CreateMessageParams": "types.client_features",
    "CreateMessageResult": "types.client_features",
    "default_tokens": "client.auth.token_store",
    "DovetailError": "protocol.errors",
    "Elicitation": "client.elicitation",
    "Embedded": "types.content",
    "Extension": "protocol.extension",
    "FileTokens": "client.auth.token_store",
    "Gateway": "gateway.gateway",
    "GetPromptResult": "types.prompts",
    "Handles": "server.features.handles",
    "Host": "host.host",
    "HttpOptions": "transports.http.contract",
    "Icon": "types.capabilities",
    "Image": "types.content",
    "Implementation": "types.capabilities",
    "InputRequired": "types.client_features",
    "Introspection": "server.auth.verifiers",
    "InvalidAnswer": "protocol.errors",
    "InvalidParams": "protocol.errors",
    "JWTVerifier": "server.auth.verifiers",
    "LaunchSpec": "config.launch_spec",
    "LocalError": "protocol.errors",
    "LoginNeeded": "auth.errors",
    "match_model": "protocol.sampling",
    "MissingCapability": "protocol.errors",
    "Model": "host.models.contract",
    "ModelFailed": "host.models.errors",
    "No": "policy.approval_questions",
    "NotFound": "protocol.errors",
    "OAuth": "client.auth.oauth",
    "OutcomeUnknown": "protocol.errors",
    "Overtaken": "protocol.errors",
    "Param": "schema.hints.param",
    "Policy": "policy.rules",
    "Principal": "auth.token_verification",
    "Prompt": "types.prompts",
    "PromptArgument": "types.prompts",
    "PromptMessage": "types.prompts",
    "ProtocolError": "protocol.errors",
    "read_config": "config.reader",
    "Receiver": "transports.base",
    "Refused": "protocol.errors",
    "RemoteError": "protocol.errors",
    "RequestIds": "server.http.access_log",
    "Resource": "types.resources",
    "ResourceLink": "types.content",
    "ResourceTemplate": "types.resources",
    "Root": "types.client_features",
    "Rule": "policy.rules",
    "SamplingMessage": "types.client_features",
    "Secrets": "client.targets.secrets",
    "Server": "server.app",
    "ServerEntry": "config.entries",
    "StaticTokens": "server.auth.verifiers",
    "StepFailed": "protocol.errors",
    "SyncContext": "server.sync_context",
    "Task": "client.tasks.task",
    "TaskCancelled": "protocol.errors",
    "TaskNotFound": "protocol.errors",
    "TaskUpdate": "client.tasks.state",
    "Text": "types.content",
    "TextContents": "types.content",
    "Timeout": "protocol.errors",
    "Tool": "types.tools",
    "ToolAnnotations": "types.tools",
    "ToolError": "protocol.errors",
    "ToolFailed": "protocol.errors",
    "URLElicitationRequired": "protocol.errors",
    "Verifier": "server.auth.verifiers",
    "Yes": "policy.approval_questions",
}

__all__ = [
    "Annotations",
    "Answer",
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
    "Gateway",
    "GetPromptResult",
    "Handles",
    "Host",
    "HttpOptions",
    "Icon",
    "Image",
    "Implementation",
    "InputRequired",
    "Introspection",
    "InvalidAnswer",
    "InvalidParams",
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
    "OutcomeUnknown",
    "Overtaken",
    "Param",
    "Policy",
    "Principal",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "ProtocolError",
    "Receiver",
    "Refused",
    "RemoteError",
    "RequestIds",
    "Resource",
    "ResourceLink",
    "ResourceTemplate",
    "Root",
    "Rule",
    "SamplingMessage",
    "Secrets",
    "Server",
    "ServerEntry",
    "StaticTokens",
    "StepFailed",
    "SyncContext",
    "Task",
    "TaskCancelled",
    "TaskNotFound",
    "TaskUpdate",
    "Text",
    "TextContents",
    "Timeout",
    "Tool",
    "ToolAnnotations",
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
