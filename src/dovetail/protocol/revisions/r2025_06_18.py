"""Revision 2025-06-18: structured output, elicitation, resource links, titles, more `_meta`; no batches."""

from __future__ import annotations

from dovetail.types.client_features import ElicitParams, ElicitResult

from .r2025_03_26 import REVISION as PREVIOUS
from .revision import Method

REVISION = PREVIOUS.evolve(
    name="2025-06-18",
    methods=(Method("elicitation/create", "server", ElicitParams, ElicitResult),),
    fields={
        "Annotations": "lastModified",
        "Audio": "_meta",
        "BlobContents": "_meta",
        "CallToolResult": "structuredContent",
        "ClientCapabilities": "elicitation",
        "CompleteParams": "context",
        "CompletionContext": "arguments",
        "ElicitParams": "_meta message requestedSchema",
        "ElicitResult": "_meta action content",
        "ElicitationCapability": "",
        "Embedded": "_meta",
        "Image": "_meta",
        "Implementation": "title",
        "Prompt": "_meta title",
        "PromptArgument": "title",
        "PromptReference": "title",
        "Resource": "_meta title",
        "ResourceLink": "type _meta uri name title description mimeType size annotations",
        "ResourceTemplate": "_meta title",
        "Root": "_meta",
        "Text": "_meta",
        "TextContents": "_meta",
        "Tool": "_meta title outputSchema",
    },
    content_types=PREVIOUS.content_types | {"resource_link"},
    batching=False,
    structured="object",
    form="plain",
    version_header=True,
)
