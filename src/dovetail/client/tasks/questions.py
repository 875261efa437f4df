"""The input requests of a task: which are new, which are withdrawn, and which need no second answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from dovetail.client.mrtr import MAX_INPUT_REQUESTS
from dovetail.protocol.errors import InvalidAnswer, Refused
from dovetail.types.client_features import InputRequest, InputRequired
from dovetail.types.serialization import load


class QuestionKeys:
    """The keys of a task's input requests over its lifetime; each is answered once.

    A server shows an input request in every state of the task until it has an answer, and for a while after that
    (ext-tasks, "Task Update Requests": keys are never used again).
    """

    def __init__(self, max_rounds: int) -> None:
        self._max_rounds = max_rounds
        self._rounds = 0
        self._open: set[str] = set()
        self._answered: set[str] = set()

    def observe(self, keys: Collection[str]) -> tuple[list[str], list[str]]:
        """The keys that are new, and the open ones that the server shows no longer.

        Raises `Refused` for too many at once, and where a task asks again and again.
        """
        if len(keys) > MAX_INPUT_REQUESTS:
            raise Refused(f"The task asked {len(keys)} questions at once; at most {MAX_INPUT_REQUESTS} are answered")
        new = [key for key in keys if key not in self._open and key not in self._answered]
        withdrawn = [key for key in self._open if key not in keys]
        self._open.difference_update(withdrawn)
        if new:
            self._rounds += 1
            if self._rounds > self._max_rounds:
                raise Refused(f"The task asked for input more than {self._max_rounds} times")
            self._open.update(new)
        return new, withdrawn

    def answer(self, key: str) -> None:
        """Note that the server has got the answer to a question."""
        self._open.discard(key)
        self._answered.add(key)

    def interrupt(self) -> None:
        """Nobody answers the open questions any more: they are new again."""
        if self._open:
            self._open.clear()
            self._rounds -= 1


def read_questions(requests: dict[str, Any] | None) -> dict[str, InputRequest]:
    """The input requests of a task; raises `InvalidAnswer` for those that no server may send."""
    if not requests:
        return {}
    try:
        required = load(InputRequired, {"resultType": "input_required", "inputRequests": requests})
    except msgspec.ValidationError as problem:
        raise InvalidAnswer(f"The task asks for input that cannot be read: {problem}") from None
    return required.requests or {}
