"""Requests about tasks of the extension of 2026-07-28, by hand, to any of several replicas."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterable
from typing import Any

from tests.support.http_process import BOTH
from tests.support.raw import ENVELOPE, ENVELOPE_META, PATIENCE

EXTENSION = "io.modelcontextprotocol/tasks"
META = {
    **ENVELOPE_META,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {EXTENSION: {}}},
}
ENDED = {"completed", "failed", "cancelled"}


class RequestFailed(Exception):
    """A response with an error."""


def task_request(id: int, method: str, **params: Any) -> dict[str, Any]:
    """A request that declares the extension."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}


class TaskCaller:
    """Sends requests to one port, each over a connection of its own."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port = port
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._id = 0

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request; OSError or HTTPException if the replica is gone, or about to go."""
        self._id += 1
        name = params.get("name") or params.get("taskId") or ""
        headers = {**BOTH, "mcp-protocol-version": ENVELOPE, "mcp-method": method, "mcp-name": name, **self._headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", json.dumps(task_request(self._id, method, **params)), headers)
            response = connection.getresponse()
            body = json.loads(response.read())
        if response.status == 503:
            raise ConnectionError("the replica is ending")
        if "error" in body:
            raise RequestFailed(body["error"])
        return body["result"]

    def start(self, tool: str, **arguments: Any) -> str:
        """Create a task and return its id."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        assert result["resultType"] == "task", result
        return result["taskId"]

    def get(self, id: str) -> dict[str, Any]:
        return self.request("tasks/get", taskId=id)

    def cancel(self, id: str) -> None:
        self.request("tasks/cancel", taskId=id)

    def answer(self, task: dict[str, Any], content: dict[str, Any]) -> None:
        """Accept all open questions of a task with the same content."""
        responses = {key: {"action": "accept", "content": content} for key in task["inputRequests"]}
        self.request("tasks/update", taskId=task["taskId"], inputResponses=responses)

    def wait_until(self, id: str, statuses: Iterable[str], patience: float = PATIENCE) -> dict[str, Any]:
        """The task once it has one of some statuses."""
        wanted, ends = set(statuses), time.monotonic() + patience
        while (task := self.get(id))["status"] not in wanted:
            assert time.monotonic() < ends, f"not {wanted} within {patience:g} s: {task}"
            time.sleep(0.05)
        return task

    def outcome(self, id: str, patience: float = PATIENCE) -> tuple[str, Any]:
        """The status of a task that has ended, and the text of its result, or its error."""
        task = self.wait_until(id, ENDED, patience)
        if task["status"] == "completed":
            return "completed", task["result"]["content"][0]["text"]
        return task["status"], task.get("error")
