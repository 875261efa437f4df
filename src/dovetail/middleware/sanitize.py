"""Results without what nobody sees and something obeys."""

from __future__ import annotations

from typing import Any

from dovetail.runtime.middleware import Exchange, Proceed


class CleanOutput:
    """Takes terminal sequences, control characters and invisible characters out of every text of a result.

    With `secrets`, also what looks like a password, a key or a token. On a server it cleans what clients
    get, on a client what the caller gets; params stay as they are.
    """

    def __init__(self, *, secrets: bool = False) -> None:
        self._secrets = secrets

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Clean a result."""
        from dovetail.text.sanitize import clean

        result = await proceed(exchange)
        # A cursor and a sealed state are to come back exactly as they were.
        kept = {name: result[name] for name in ("nextCursor", "requestState", "_meta") if name in result}
        cleaned = clean(result)
        if self._secrets:
            from dovetail.text.redact import redact

            cleaned = redact(cleaned)
        return {**cleaned, **kept}
