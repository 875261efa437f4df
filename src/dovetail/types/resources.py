"""Resources and resource templates."""

import msgspec

from .base import CacheableResult, PageResult, RetriedParams
from .capabilities import Icon
from .content import Annotations, Contents
from .serialization import Value


class Resource(Value):
    """The definition of a resource, as `resources/list` returns it."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None


class ResourceTemplate(Value):
    """A family of resources with a URI template."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None


class ListResourcesResult(PageResult):
    """One page of resources."""

    resources: list[Resource] = msgspec.field(default_factory=list[Resource])


class ListResourceTemplatesResult(PageResult):
    """One page of templates."""

    resource_templates: list[ResourceTemplate] = msgspec.field(default_factory=list[ResourceTemplate])


class ReadResourceParams(RetriedParams):
    """Params of `resources/read`."""

    uri: str


class ReadResourceResult(CacheableResult):
    """Result of `resources/read`; a directory, for example, may have more than one part."""

    contents: list[Contents] = msgspec.field(default_factory=list[Contents])


class SubscribeParams(Value):
    """Params of `resources/subscribe` and `resources/unsubscribe`."""

    uri: str


class ResourceUpdatedParams(Value):
    """Params of `notifications/resources/updated`."""

    uri: str
