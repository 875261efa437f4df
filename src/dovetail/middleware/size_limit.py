"""Size limit of results."""

from __future__ import annotations

from typing import Any

from dovetail.protocol.errors import INTERNAL_ERROR, InvalidAnswer, LocalError, ProtocolError
from dovetail.runtime.middleware import Exchange, Proceed
from dovetail.wire import codec


class SizeLimit:
    """Refuses a result with more than `most` bytes of JSON.

    The result of a tool is replaced by an `isError` result, so that the model can ask for less. For an outgoing
    request, the caller gets `InvalidAnswer`.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise LocalError(f"A size limit must be at least 1 byte, not {most}")
        self._most = most

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Check the size of a result."""
        result = await proceed(exchange)
        size = len(codec.encode(result))
        if size <= self._most:
            return result
        problem = f"The result of {exchange.target or exchange.method} has {size} bytes; the limit is {self._most}"
        if exchange.way == "out":
            raise InvalidAnswer(problem)
        if exchange.method == "tools/call":
            return {**_frame(result), "content": [{"type": "text", "text": problem}], "isError": True}
        raise ProtocolError(INTERNAL_ERROR, problem)


def _frame(result: dict[str, Any]) -> dict[str, Any]:
    """The fields of a result that are not its content."""
    return {name: result[name] for name in ("resultType",) if name in result}
