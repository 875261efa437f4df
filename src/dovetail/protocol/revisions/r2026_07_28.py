"""Revision 2026-07-28: stateless; every request carries its envelope, and servers ask back in rounds."""

from __future__ import annotations

from dovetail.protocol.errors import INVALID_PARAMS, MODERN_CODES, RESOURCE_NOT_FOUND
from dovetail.types import client_features, messages, tools
from dovetail.types.base import EmptyParams

from .r2025_11_25 import REVISION as PREVIOUS
from .revision import Method

_INPUTS = (
    Method(
        "sampling/createMessage", "server", client_features.CreateMessageParams, client_features.CreateMessageResult
    ),
    Method("elicitation/create", "server", client_features.ElicitParams, client_features.ElicitResult),
    Method("roots/list", "server", EmptyParams, client_features.ListRootsResult),
)

_CACHE = "resultType ttlMs cacheScope"
_RETRY = "inputResponses requestState"

REVISION = PREVIOUS.evolve(
    name="2026-07-28",
    era="envelope",
    methods=(
        Method("server/discover", "client", EmptyParams, messages.DiscoverResult),
        Method("tools/call", "client", tools.CallToolParams, tools.CallToolResult),
        Method("subscriptions/listen", "client", messages.ListenParams, messages.ListenResult),
        Method("notifications/progress", "server", messages.ProgressParams),
        Method("notifications/subscriptions/acknowledged", "server", messages.AcknowledgedParams),
    ),
    without_methods=(
        "initialize",
        "notifications/initialized",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "tasks/list",
        "notifications/tasks/status",
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
    ),
    inputs={method.name: method for method in _INPUTS},
    outcomes={"input_required": client_features.InputRequired},
    fields={
        "AcknowledgedParams": "_meta notifications",
        "CallToolParams": _RETRY,
        "CallToolResult": "resultType",
        "CompleteResult": "resultType",
        "DiscoverResult": f"_meta supportedVersions capabilities instructions {_CACHE}",
        "ElicitRequest": "method params",
        "GetPromptParams": _RETRY,
        "GetPromptResult": "resultType",
        "InputRequired": "_meta inputRequests requestState resultType",
        "ListPromptsResult": _CACHE,
        "ListResourceTemplatesResult": _CACHE,
        "ListResourcesResult": _CACHE,
        "ListToolsResult": _CACHE,
        "ListenParams": "_meta notifications",
        "ListenResult": "_meta resultType",
        "ReadResourceParams": _RETRY,
        "ReadResourceResult": _CACHE,
        "Result": "resultType",
        "RootsRequest": "method params",
        "SamplingRequest": "method params",
        "SubscriptionFilter": "toolsListChanged promptsListChanged resourcesListChanged resourceSubscriptions",
    },
    without_fields={
        "CallToolParams": "task",
        "ClientCapabilities": "tasks",
        "CreateMessageParams": "_meta task",
        "ElicitParams": "_meta elicitationId task",
        "ElicitResult": "_meta",
        "ListRootsResult": "_meta",
        "RootsCapability": "listChanged",
        "ServerCapabilities": "tasks",
        "Tool": "execution",
    },
    without_types=(
        "CreateTaskResult",
        "ElicitationCompleteParams",
        "InitializeParams",
        "InitializeResult",
        "ListTasksResult",
        "SetLevelParams",
        "SubscribeParams",
        "Task",
        "TaskMetadata",
        "TaskParams",
        "TaskPayload",
        "TaskResult",
        "TaskStatusParams",
        "ToolExecution",
    ),
    server_requests="rounds",
    progress_from=frozenset({"server"}),
    structured="any",
    not_found_code=INVALID_PARAMS,
    foreign_codes=frozenset(range(-32099, -32019)) - MODERN_CODES | {RESOURCE_NOT_FOUND},
    cacheable=frozenset(
        {
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
        }
    ),
    result_type=True,
    session_header=False,
    resumable=False,
    sse_polling=False,
    required_headers=True,
    disconnect="cancel",
    tasks="extension",
)
