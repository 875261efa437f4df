"""What servers ask the person in the middle of a call, as forms at the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dovetail.cli.asking import Answer, Asking

from .surface import Interrupted, Surface

if TYPE_CHECKING:
    from dovetail.client.questions import Elicitation


class Forms:
    """Asks in the name of a server, by its key in the configuration."""

    def __init__(self, surface: Surface, interrupt: Callable[[], None]) -> None:
        self._surface = surface
        self._interrupt = interrupt

    async def elicit(self, server: str, question: Elicitation) -> Answer:
        """Put a server's form, or its page, to the person; the host's `on_elicit`."""
        from dovetail.host.person import Asked

        warnings = question.concerns if isinstance(question, Asked) else ()
        self._surface.end_progress()
        try:
            return await Asking(self._surface, server, warnings).elicit(question)
        except Interrupted:
            self._interrupt()
            return "cancel"
        except asyncio.CancelledError:
            self._surface.notice(("dim", f"  (the question of {server} was withdrawn)"))
            raise
