"""An answer in the words of OpenAI's chat completions, of which a local server may leave out or bend any."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import ConnectionLost, InvalidAnswer
from dovetail.types.client_features import CreateMessageResult

from .delta_assembly import AnswerAssembly
from .usage import usage_meta

STOP_REASONS = {
    "stop": "endTurn",
    "length": "maxTokens",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "content_filter": "contentFilter",
}


class ErrorInAnswer(Exception):
    """The endpoint says in the middle of an answer that it failed; `body` is what it says of it."""

    def __init__(self, body: object) -> None:
        said = _fields(body).get("message")
        self.message = said if isinstance(said, str) and said else "it says that it failed, and not why"
        self.body = body
        super().__init__(self.message)


class AnswerReader:
    """Reads one answer of the model, from the chunks of a stream or as a whole."""

    def __init__(self, name: str, assembly: AnswerAssembly) -> None:
        self._name = name
        self._model = name
        self._assembly = assembly
        self._reason: str | None = None
        self._meta: dict[str, Any] | None = None
        self._has_choices = False
        self._slots: dict[Hashable, list[str]] = {}
        """By the index of a tool call: the ids of those that were given it."""

    def feed(self, chunk: object) -> str | None:
        """Process one chunk; returns the new text in it, if any."""
        fields = _fields(chunk)
        if error := fields.get("error"):
            raise ErrorInAnswer(error)
        choices = _items(fields.get("choices"))
        self._has_choices = self._has_choices or bool(choices)
        model = fields.get("model")
        self._model = model if isinstance(model, str) and model else self._model
        if usage := _fields(fields.get("usage")):
            # `cost` is OpenRouter's.
            self._meta = usage_meta(usage.get("prompt_tokens"), usage.get("completion_tokens"), usage.get("cost"))
        return self._choice(_fields(choices[0])) if choices else None

    def whole(self, *, ended: bool) -> CreateMessageResult:
        """The answer, once all has been read; `ended` says that the endpoint called it the end."""
        if not self._has_choices:
            raise InvalidAnswer(f"The endpoint of the model {self._name} answered with something else than an answer")
        if self._reason is None and not ended:
            raise ConnectionLost(f"The answer of the model {self._name} broke off")
        reason = self._reason or "stop"
        return self._assembly.result(self._model, STOP_REASONS.get(reason, reason), self._meta)

    def _choice(self, choice: dict[str, Any]) -> str | None:
        reason = choice.get("finish_reason")
        self._reason = reason if isinstance(reason, str) and reason else self._reason
        said = _fields(choice.get("delta")) or _fields(choice.get("message"))
        piece = said.get("content") or said.get("refusal")
        piece = piece if isinstance(piece, str) and piece else None
        if piece is not None:
            self._assembly.text("text", piece)
        for place, call in enumerate(_items(said.get("tool_calls"))):
            self._call(place, _fields(call))
        return piece

    def _call(self, place: int, call: dict[str, Any]) -> None:
        id, function, index = call.get("id"), _fields(call.get("function")), call.get("index")
        id = id if isinstance(id, str) else ""
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        index = index if isinstance(index, int) else place
        ids = self._slots.setdefault(index, [id])
        if id and name and ids[-1] not in ("", id):
            # Some servers give all calls the same index, or none; some give every piece a new id, but no new name.
            ids.append(id)
        key = ("use", index, len(ids))
        self._assembly.use(key, id, name)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        if isinstance(arguments, str) and arguments:
            self._assembly.arguments(key, arguments)


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
