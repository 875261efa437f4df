"""JSON Schemas of the tasks extension, written from its page: closed, so that a field that it does not define is wrong.

The core's official schemas know nothing of the extension `io.modelcontextprotocol/tasks`; those of 2025-11-25, where
tasks are in core, have schemas of their own.
"""

from functools import cache
from typing import Any

import jsonschema_rs

TIMESTAMP = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
}
TASK = {
    "taskId": {"type": "string", "minLength": 1},
    "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
    "statusMessage": {"type": "string"},
    "createdAt": TIMESTAMP,
    "lastUpdatedAt": TIMESTAMP,
    "ttlMs": {"type": ["integer", "null"], "minimum": 1},
    "pollIntervalMs": {"type": "integer", "minimum": 1},
}
REQUIRED = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"]
META = {"_meta": {"type": "object"}}
INPUT_REQUESTS = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "properties": {
            "method": {"enum": ["elicitation/create", "sampling/createMessage", "roots/list"]},
            "params": {"type": "object"},
        },
        "required": ["method"],
        "additionalProperties": False,
    },
}
RESULT = {
    "type": "object",
    "properties": {"resultType": {"const": "complete"}, "content": {"type": "array"}},
    "required": ["content"],
}
ERROR = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
    "required": ["code", "message"],
    "additionalProperties": False,
}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _detailed(more: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """A task with what its status calls for, and nothing that another status calls for."""

    def of_status(status: str, **fields: Any) -> dict[str, Any]:
        return _object({**TASK, **META, **more, "status": {"const": status}, **fields}, [*REQUIRED, *required, *fields])

    return {
        "oneOf": [
            of_status("working"),
            of_status("input_required", inputRequests=INPUT_REQUESTS),
            of_status("completed", result=RESULT),
            of_status("failed", error=ERROR),
            of_status("cancelled"),
        ]
    }


COMPLETE = {"resultType": {"const": "complete"}}
PARAMS = _object({**META, "taskId": {"type": "string"}}, ["taskId"])
UPDATE_PARAMS = _object(
    {**META, "taskId": {"type": "string"}, "inputResponses": {"type": "object"}}, ["taskId", "inputResponses"]
)
SCHEMAS = {
    "tasks/get": PARAMS,
    "tasks/update": UPDATE_PARAMS,
    "tasks/cancel": PARAMS,
    "notifications/tasks": _detailed({}, []),
    "CreateTaskResult": _object({**TASK, **META, "resultType": {"const": "task"}}, [*REQUIRED, "resultType"]),
    "GetTaskResult": _detailed(COMPLETE, ["resultType"]),
    "Acknowledgement": _object({**META, **COMPLETE}, ["resultType"]),
}
"""Params by their method, and results by their names."""

METHODS = {"client": ("tasks/get", "tasks/update", "tasks/cancel"), "server": ("notifications/tasks",)}
"""The methods of the extension, by who sends them."""

RESULTS = {"tasks/get": "GetTaskResult", "tasks/update": "Acknowledgement", "tasks/cancel": "Acknowledgement"}
"""The results of its requests."""


def problems(name: str, value: Any) -> list[str]:
    """What is wrong with a result or with params, by a name of `SCHEMAS`."""
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in _validator(name).iter_errors(value)
    ]


@cache
def _validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(SCHEMAS[name])
