"""Revision 2025-03-26: Streamable HTTP with sessions, audio, tool annotations, batches."""

from __future__ import annotations

from .r2024_11_05 import REVISION as PREVIOUS

REVISION = PREVIOUS.evolve(
    name="2025-03-26",
    fields={
        "Audio": "type data mimeType annotations",
        "ProgressParams": "message",
        "ServerCapabilities": "completions",
        "Tool": "annotations",
        "ToolAnnotations": "title readOnlyHint destructiveHint idempotentHint openWorldHint",
    },
    content_types=PREVIOUS.content_types | {"audio"},
    batching=True,
    session_header=True,
    resumable=True,
)
