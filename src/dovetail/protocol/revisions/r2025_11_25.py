"""Revision 2025-11-25: icons, elicitation by URL, sampling with tools, tasks, SSE polling."""

from __future__ import annotations

from dovetail.types import client_features, tasks, tools
from dovetail.types.base import PageParams

from .r2025_06_18 import REVISION as PREVIOUS
from .revision import Method

_TASK = "taskId status statusMessage createdAt lastUpdatedAt ttl pollInterval"

REVISION = PREVIOUS.evolve(
    name="2025-11-25",
    methods=(
        Method("tools/call", "client", tools.CallToolParams, tools.CallToolResult, as_task=True),
        Method(
            "sampling/createMessage",
            "server",
            client_features.CreateMessageParams,
            client_features.CreateMessageResult,
            as_task=True,
        ),
        Method(
            "elicitation/create", "server", client_features.ElicitParams, client_features.ElicitResult, as_task=True
        ),
        Method("tasks/get", "both", tasks.TaskParams, tasks.TaskResult),
        Method("tasks/result", "both", tasks.TaskParams, tasks.TaskPayload),
        Method("tasks/cancel", "both", tasks.TaskParams, tasks.TaskResult),
        Method("tasks/list", "both", PageParams, tasks.ListTasksResult),
        Method("notifications/tasks/status", "both", tasks.TaskStatusParams),
        Method("notifications/elicitation/complete", "server", client_features.ElicitationCompleteParams),
    ),
    fields={
        "CallToolParams": "task",
        "ClientCapabilities": "tasks",
        "CreateMessageParams": "task toolChoice tools",
        "CreateTaskResult": "_meta task",
        "ElicitParams": "mode url elicitationId task",
        "ElicitationCapability": "form url",
        "ElicitationCompleteParams": "_meta elicitationId",
        "Icon": "src mimeType sizes theme",
        "Implementation": "description icons websiteUrl",
        "ListTasksResult": "_meta tasks nextCursor",
        "Prompt": "icons",
        "Resource": "icons",
        "ResourceLink": "icons",
        "ResourceTemplate": "icons",
        "SamplingCapability": "context tools",
        "SamplingMessage": "_meta",
        "ServerCapabilities": "tasks",
        "Task": _TASK,
        "TaskMetadata": "ttl",
        "TaskParams": "_meta taskId",
        "TaskPayload": "_meta",
        "TaskResult": f"_meta {_TASK}",
        "TaskStatusParams": f"_meta {_TASK}",
        "Tool": "execution icons",
        "ToolChoice": "mode",
        "ToolExecution": "taskSupport",
        "ToolResultContent": "type _meta toolUseId content structuredContent isError",
        "ToolUse": "type _meta id name input",
    },
    content_types=PREVIOUS.content_types | {"tool_use", "tool_result"},
    null_id=False,
    form="rich",
    bad_arguments="result",
    sse_polling=True,
    tasks="core",
)
