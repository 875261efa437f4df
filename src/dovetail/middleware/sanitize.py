"""Sanitizing of results."""

from __future__ import annotations

from typing import Any

from dovetail.runtime.middleware import Exchange, Proceed


class CleanOutput:
    """Removes escape sequences, control characters and invisible characters from all texts of a result.

    With `secrets`, also redacts texts that look like passwords, keys or tokens. On a server it cleans the results for
    clients, on a client the results for its caller; params are not changed.
    """

    def __init__(self, *, secrets: bool = False) -> None:
        self._secrets = secrets

    async def __call__(self, exchange: Exchange, proceed: Proceed) -> dict[str, Any]:
        """Clean a result."""
        from dovetail.text.sanitize import clean

        result = await proceed(exchange)
        # Cursors and sealed states must come back unchanged.
        kept = {name: result[name] for name in ("nextCursor", "requestState", "_meta") if name in result}
        cleaned = clean(result)
        if self._secrets:
            from dovetail.text.redact import redact

            cleaned = redact(cleaned)
        return {**cleaned, **kept}
