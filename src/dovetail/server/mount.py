"""One server inside another: what it offers, it offers there too, now and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.runtime.call import Call
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.server.features.prompts import RegisteredPrompt
from dovetail.server.features.resources import RegisteredResource
from dovetail.server.features.tools import RegisteredTool
from dovetail.types.client_features import InputRequired
from dovetail.types.prompts import GetPromptResult
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult

from .context import Context
from .registry import Registry

if TYPE_CHECKING:
    from dovetail.server.features.completion import RegisteredCompletion

    from .app import Server

Item = TypeVar("Item", RegisteredTool, RegisteredPrompt, RegisteredResource)


class MountedTool(RegisteredTool):
    """A tool of another server, under a name of this one."""

    def __init__(self, mount: Mount, origin: RegisteredTool) -> None:
        super().__init__(origin.function, origin.binding, mount.renamed(origin.definition), origin.timeout, None)
        self.mount = mount
        self.origin = origin
        self._semaphore = origin._semaphore
        self.unlimited = origin.unlimited
        self.scopes = origin.scopes

    async def invoke(
        self, context: Context, call: Call, workers: ThreadPool, arguments: dict[str, Any]
    ) -> CallToolResult | InputRequired:
        """Run it for its own server."""
        home = home_of(self)
        context.serve_for(home)
        return await super().invoke(context, call, home.workers, arguments)


class MountedPrompt(RegisteredPrompt):
    """A prompt of another server, under a name of this one."""

    def __init__(self, mount: Mount, origin: RegisteredPrompt) -> None:
        super().__init__(origin.function, origin.binding, mount.renamed(origin.definition))
        self.mount = mount
        self.origin = origin

    async def get(
        self, context: Context, call: Call, workers: ThreadPool, arguments: dict[str, Any]
    ) -> GetPromptResult | InputRequired:
        """Fill it in for its own server."""
        home = home_of(self)
        context.serve_for(home)
        return await super().get(context, call, home.workers, arguments)


class MountedResource(RegisteredResource):
    """A resource of another server; its URI is its own."""

    def __init__(self, mount: Mount, origin: RegisteredResource) -> None:
        super().__init__(origin.function, origin.binding, origin.definition, origin.hints)
        self.mount = mount
        self.origin = origin

    async def read(
        self, context: Context, call: Call, workers: ThreadPool, uri: str, variables: dict[str, Any]
    ) -> ReadResourceResult | InputRequired:
        """Read it for its own server."""
        home = home_of(self)
        context.serve_for(home)
        return await super().read(context, call, home.workers, uri, variables)


Mounted = (MountedTool, MountedPrompt, MountedResource)


def home_of(item: MountedTool | MountedPrompt | MountedResource) -> Server:
    """The server whose author wrote it, through however many mounts it came."""
    while isinstance(item.origin, Mounted):
        item = item.origin
    return item.mount.child


class Mount:
    """What one server takes over from another.

    Tools and prompts get the prefix and an underscore before their names. URIs stay as they are: they are
    addresses, and what a handler returns may hold them.
    """

    def __init__(self, parent: Server, child: Server, prefix: str | None) -> None:
        self.parent = parent
        self.child = child
        self.prefix = f"{prefix}_" if prefix else ""

    def renamed(self, definition: Any) -> Any:
        """What clients of the outer server see of a tool or a prompt."""
        return msgspec.structs.replace(definition, name=self.prefix + definition.name)

    def take_over(self) -> None:
        """Offer what the other server offers now: take away what is gone, add what is new."""
        parent, child = self.parent, self.child
        self._take(child.tools, parent.tools, MountedTool, self.prefix)
        self._take(child.prompts, parent.prompts, MountedPrompt, self.prefix)
        self._take(child.resources, parent.resources, MountedResource, "")
        self._take(child.templates, parent.templates, MountedResource, "")

    def give_back(self) -> None:
        """Offer nothing of the other server any more."""
        parent = self.parent
        for ours in (parent.tools, parent.prompts, parent.resources, parent.templates):
            for key, item in ours.items():
                if isinstance(item, Mounted) and item.mount is self:
                    ours.remove(key)

    def find_completion(self, reference: str, argument: str) -> tuple[Server, RegisteredCompletion] | None:
        """Who suggests values for what the other server calls by its own name."""
        if reference in self.child.templates:
            return self.child.find_completion(reference, argument)
        if not reference.startswith(self.prefix):
            return None
        return self.child.find_completion(reference.removeprefix(self.prefix), argument)

    def _take(self, theirs: Registry[Item], ours: Registry[Item], kind: Any, prefix: str) -> None:
        offered = {prefix + key: item for key, item in theirs.items()}
        for key, item in ours.items():
            if isinstance(item, Mounted) and item.mount is self and offered.get(key) is not item.origin:
                ours.remove(key)
        for key, item in offered.items():
            found = ours.get(key)
            if found is None:
                ours.add(key, kind(self, item))
            elif not (isinstance(found, Mounted) and found.mount is self):
                raise LocalError(f"The mounted server {self.child.info.name!r} has {key!r}, which is taken already")


def check_mountable(parent: Server, child: Server) -> None:
    """Refuse a mount that would go in circles, or that would leave out what guards the other server."""
    if child is parent or parent in child.inside():
        raise LocalError("A server cannot be mounted in itself")
    if child.guarded:
        raise LocalError(
            f"The server {child.info.name!r} has middleware or authorization, or hides things from some principals, "
            "which would not hold where it is mounted; give them to the outer server"
        )
    if parent.serving:
        raise LocalError("Mount servers before the first client comes: their lifespan is entered with this one's")
