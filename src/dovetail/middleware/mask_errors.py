"""Masking of internal errors."""

from __future__ import annotations

import logging
import os
from typing import Any

from dovetail.protocol.errors import INTERNAL_ERROR, InvalidParams, NotFound, ProtocolError
from dovetail.runtime.middleware import Exchange, Proceed

logger = logging.getLogger("dovetail")


class MaskErrors:
    """Replaces the text of unexpected errors by a reference, under which the error is in the log.

    Errors that a handler raises on purpose (`ToolError`, `NotFound`, `InvalidParams`, `ProtocolError`) pass unchanged.
    Outgoing requests are not affected.
    """

    def __init__(self, message: str = "Something went wrong") -> None:
        self._message = message

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Mask the error of a request."""
        if exchange.way == "out":
            return await proceed(exchange)
        try:
            result = await proceed(exchange)
        except ProtocolError as error:
            if exchange.problem is None:
                raise
            raise self._masked(exchange, exchange.problem, error.code) from None
        except Exception as problem:
            if isinstance(problem, NotFound | InvalidParams) and not problem.is_remote:
                raise  # raised by a middleware inside of this one
            logger.exception("Serving %s failed", exchange.method)
            raise self._masked(exchange, problem, INTERNAL_ERROR) from None
        if exchange.problem is None or result.get("isError") is not True:
            return result
        text = self._masked(exchange, exchange.problem, INTERNAL_ERROR).message
        return {**result, "content": [{"type": "text", "text": text}]}

    def _masked(self, exchange: Exchange, problem: BaseException, code: int) -> ProtocolError:
        reference = os.urandom(6).hex()
        target = exchange.target
        what = exchange.method if target is None else f"{exchange.method} {target[:200]!r}"
        # Its traceback is in the log already.
        logger.error("%s failed (reference %s): %s: %s", what, reference, type(problem).__name__, problem)
        return ProtocolError(code, f"{self._message} (reference {reference})")
