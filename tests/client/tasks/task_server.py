"""A server of the envelope era whose tasks do what a test says; it knows nothing of the code under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.scripted import SILENCE, Error, Scripted, discovery

TASKS = "io.modelcontextprotocol/tasks"
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def question(message: str = "Who?") -> dict[str, Any]:
    """An elicitation inside a task."""
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": FORM}}


class TaskServer(Scripted):
    """Makes a task of each call; the test changes `state`, which polls and pushes show."""

    def __init__(self, *, push: bool = False, declared: bool = True, interval: int | None = 10) -> None:
        capabilities: dict[str, Any] = {"tools": {}}
        if declared:
            capabilities["extensions"] = {TASKS: {}}
        super().__init__(server_discover=discovery(capabilities=capabilities))
        self.state: dict[str, Any] = {"status": "working"}
        self.interval = interval
        self.version = 0
        self.created = 0
        self.subscription: Any = None
        self.on_update: Callable[[dict[str, Any]], Any] = lambda _: None
        self.answers |= {
            "tools/call": self._create,
            "tasks/get": lambda message: self.shown(message["params"]["taskId"]),
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }
        if push:
            self.answers["subscriptions/listen"] = self._listen

    def change(self, status: str, **fields: Any) -> None:
        """Change the state, and push it where somebody listens."""
        self.state = {"status": status, **fields}
        self.version += 1
        if self.subscription is not None:
            meta = {"io.modelcontextprotocol/subscriptionId": self.subscription}
            shown = {key: value for key, value in self.shown("task-1").items() if key != "resultType"}
            self.peer.send({"jsonrpc": "2.0", "method": "notifications/tasks", "params": {**shown, "_meta": meta}})

    def complete(self) -> None:
        """The task ends with a result."""
        self.change("completed", result=DONE)

    def ask(self, **questions: Any) -> None:
        """The task asks; the answers arrive as `tasks/update`."""
        self.change("input_required", inputRequests=questions)

    def end_subscription(self) -> None:
        """End the subscription properly."""
        self.peer.send({"jsonrpc": "2.0", "id": self.subscription, "result": {"resultType": "complete"}})
        self.subscription = None

    def sent(self, method: str) -> list[dict[str, Any]]:
        """The params of each request of a method."""
        return [message["params"] for message in self.asked if message.get("method") == method]

    def shown(self, id: str) -> dict[str, Any]:
        """The state as `tasks/get` shows it."""
        times = {"createdAt": "2026-11-18T10:00:00.000Z", "lastUpdatedAt": f"2026-11-18T10:00:00.{self.version:03}Z"}
        paced = {} if self.interval is None else {"pollIntervalMs": self.interval}
        return {"resultType": "complete", "taskId": id, **times, "ttlMs": 60_000, **paced, **self.state}

    def _create(self, message: dict[str, Any]) -> Any:
        self.created += 1
        seed = {key: value for key, value in self.shown(f"task-{self.created}").items() if key != "resultType"}
        return {**seed, "status": "working", "resultType": "task"}

    def _update(self, message: dict[str, Any]) -> Any:
        answer = self.on_update(message["params"]["inputResponses"])
        return answer if isinstance(answer, Error) else {"resultType": "complete"}

    def _cancel(self, message: dict[str, Any]) -> Any:
        self.change("cancelled", statusMessage="stopped")
        return {"resultType": "complete"}

    def _listen(self, message: dict[str, Any]) -> Any:
        self.subscription = message["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        params = {"notifications": message["params"]["notifications"], "_meta": meta}
        self.peer.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
        return SILENCE
