"""Who a peer is and what it can do."""

from typing import Any, Literal

from .serialization import Value


class Icon(Value):
    """A picture that stands for a server, a tool, a resource or a prompt."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Implementation(Value):
    """The name and version of a client or a server."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class ListCapability(Value):
    """The peer has a list of this kind, and may tell when it changes."""

    list_changed: bool | None = None


class ResourcesCapability(Value):
    """The server has resources, may tell when their list changes, and may watch single ones."""

    subscribe: bool | None = None
    list_changed: bool | None = None


class RootsCapability(Value):
    """The client has roots, and may tell when they change."""

    list_changed: bool | None = None


class SamplingCapability(Value):
    """The client can ask a model, with context of other servers and with tools where it says so."""

    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class ElicitationCapability(Value):
    """The client can ask its user: with a form (also when it says nothing), or by opening a page."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class ClientCapabilities(Value, kw_only=True):
    """What a client can do for a server."""

    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    tasks: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None


class ServerCapabilities(Value, kw_only=True):
    """What a server can do for a client."""

    tools: ListCapability | None = None
    resources: ResourcesCapability | None = None
    prompts: ListCapability | None = None
    completions: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None
