"""Host: many servers under the control of one user.

    from dovetail.host import ChatLimits, TextDelta, TurnEnded

Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.entries import Input, Origin, ServerEntry
    from dovetail.config.reader import read_config
    from dovetail.host.catalogue import HostPrompt, HostResource, HostTemplate, HostTool
    from dovetail.host.chat.chat import Chat
    from dovetail.host.chat.events import (
        Attached,
        ChatEvent,
        ChatLimits,
        LinkedResource,
        ToolFinished,
        ToolProgress,
        ToolStarted,
        TurnEnded,
    )
    from dovetail.host.consent.definition_review import Withheld
    from dovetail.host.consent.user_prompts import HostElicitation
    from dovetail.host.events import CallProgress, HostEvent, LogLine, ResourceChange, ServerStatus, TrafficLine
    from dovetail.host.host import Host
    from dovetail.host.limits import Limits
    from dovetail.host.models.anthropic import AnthropicModel
    from dovetail.host.models.contract import Model, ModelEvent, TextDelta, Traits
    from dovetail.host.models.errors import ModelFailed
    from dovetail.host.models.openai import OpenAIModel
    from dovetail.host.models.scripted import ScriptedModel, ScriptStep, ScriptToolUse
    from dovetail.host.models.usage import Usage
    from dovetail.host.running_work import WorkInProgress
    from dovetail.host.tasks.host_task import BackgroundResult, HostTask

_HOMES = {
    "AnthropicModel": "host.models.anthropic",
    "Attached": "host.chat.events",
    "BackgroundResult": "host.tasks.host_task",
    "CallProgress": "host.events",
    "Chat": "host.chat.chat",
    "ChatEvent": "host.chat.events",
    "ChatLimits": "host.chat.events",
    "Host": "host.host",
    "HostElicitation": "host.consent.user_prompts",
    "HostEvent": "host.events",
    "HostPrompt": "host.catalogue",
    "HostResource": "host.catalogue",
    "HostTask": "host.tasks.host_task",
    "HostTemplate": "host.catalogue",
    "HostTool": "host.catalogue",
    "Input": "config.entries",
    "Limits": "host.limits",
    "LinkedResource": "host.chat.events",
    "LogLine": "host.events",
    "Model": "host.models.contract",
    "ModelEvent": "host.models.contract",
    "ModelFailed": "host.models.errors",
    "OpenAIModel": "host.models.openai",
    "Origin": "config.entries",
    "ResourceChange": "host.events",
    "ScriptStep": "host.models.scripted",
    "ScriptToolUse": "host.models.scripted",
    "ScriptedModel": "host.models.scripted",
    "Secrets": "client.targets.secrets",
    "ServerEntry": "config.entries",
    "ServerStatus": "host.events",
    "TextDelta": "host.models.contract",
    "ToolFinished": "host.chat.events",
    "ToolProgress": "host.chat.events",
    "ToolStarted": "host.chat.events",
    "TrafficLine": "host.events",
    "Traits": "host.models.contract",
    "TurnEnded": "host.chat.events",
    "Usage": "host.models.usage",
    "Withheld": "host.consent.definition_review",
    "WorkInProgress": "host.running_work",
    "read_config": "config.reader",
}

__all__ = [
    "AnthropicModel",
    "Attached",
    "BackgroundResult",
    "CallProgress",
    "Chat",
    "ChatEvent",
    "ChatLimits",
    "Host",
    "HostElicitation",
    "HostEvent",
    "HostPrompt",
    "HostResource",
    "HostTask",
    "HostTemplate",
    "HostTool",
    "Input",
    "Limits",
    "LinkedResource",
    "LogLine",
    "Model",
    "ModelEvent",
    "ModelFailed",
    "OpenAIModel",
    "Origin",
    "ResourceChange",
    "ScriptStep",
    "ScriptToolUse",
    "ScriptedModel",
    "Secrets",
    "ServerEntry",
    "ServerStatus",
    "TextDelta",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TrafficLine",
    "Traits",
    "TurnEnded",
    "Usage",
    "Withheld",
    "WorkInProgress",
    "read_config",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
