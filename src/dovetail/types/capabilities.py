"""Identity and capabilities of clients and servers."""

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from .media_files import MediaMeta
from .serialization import Value


class Icon(Value, metaclass=MediaMeta):
    """An icon of a server, a tool, a resource or a prompt.

    `Icon(path=…)` reads a file and makes a `data:` URI of it.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None

    if TYPE_CHECKING:  # the second form is that of the metaclass

        @overload
        def __init__(
            self,
            src: str,
            mime_type: str | None = None,
            sizes: list[str] | None = None,
            theme: Literal["light", "dark"] | None = None,
            *,
            meta: dict[str, Any] | None = None,
            extra: dict[str, Any] = ...,
        ) -> None: ...

        @overload
        def __init__(
            self,
            *,
            path: str | os.PathLike[str],
            mime_type: str | None = None,
            sizes: list[str] | None = None,
            theme: Literal["light", "dark"] | None = None,
            meta: dict[str, Any] | None = None,
            extra: dict[str, Any] = ...,
        ) -> None: ...

        def __init__(self, *args: Any, **fields: Any) -> None: ...


class Implementation(Value):
    """The name and version of a client or a server."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class ListCapability(Value):
    """The peer has a list of this kind, and may send notifications when it changes."""

    list_changed: bool | None = None


class ResourcesCapability(Value):
    """The server has resources; it may offer subscriptions, and notifications when the list changes."""

    subscribe: bool | None = None
    list_changed: bool | None = None


class RootsCapability(Value):
    """The client has roots, and may send notifications when they change."""

    list_changed: bool | None = None


class SamplingCapability(Value):
    """The client supports sampling, with context from servers and with tools if declared."""

    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class ElicitationCapability(Value):
    """The client supports elicitation: by form (also if neither is declared), or by URL."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class ClientCapabilities(Value, kw_only=True):
    """Capabilities that a client declares."""

    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    tasks: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None


class ServerCapabilities(Value, kw_only=True):
    """Capabilities that a server declares."""

    tools: ListCapability | None = None
    resources: ResourcesCapability | None = None
    prompts: ListCapability | None = None
    completions: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None
