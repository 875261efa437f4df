"""Completion while a person types, from suggestions that may have to be waited for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dovetail.cli.chat.views.rendering import shortened
from dovetail.protocol.errors import DovetailError

from .contract import Suggest

_ABOUT = 48


class TypingAid(Completer):
    """Shows suggestions as a menu; what a server does not answer is no menu, and no error."""

    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Nothing without waiting."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Suggestions for what stands before the cursor."""
        try:
            found = await self._suggest(document.text_before_cursor)
        except DovetailError:
            return
        for suggestion in found:
            if not suggestion.text.isprintable():
                continue
            yield Completion(
                suggestion.text,
                start_position=-suggestion.replaces,
                display_meta=shortened(suggestion.about, _ABOUT) or None,
            )
