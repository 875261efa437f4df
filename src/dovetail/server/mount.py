"""Mounting: a server offers what another server offers, now and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.server.features.prompts import RegisteredPrompt
from dovetail.server.features.resources import RegisteredResource
from dovetail.server.features.tools import RegisteredTool
from dovetail.types.client_features import InputRequired
from dovetail.types.prompts import GetPromptResult
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult

from .invocation import Invocation
from .registry import Registry

if TYPE_CHECKING:
    from dovetail.server.features.completion import RegisteredCompletion

    from .core import ServerCore

Item = TypeVar("Item", RegisteredTool, RegisteredPrompt, RegisteredResource)


class MountedTool(RegisteredTool):
    """A tool of another server, under a name of this one."""

    def __init__(self, mount: Mount, origin: RegisteredTool) -> None:
        super().__init__(origin.function, origin.binding, mount.renamed(origin.definition), origin.timeout, None)
        self.mount = mount
        self.origin = origin
        self._semaphore, self.concurrency = origin._semaphore, origin.concurrency
        self.unlimited = origin.unlimited
        self.scopes = origin.scopes
        self.task = origin.task

    async def invoke(self, invocation: Invocation, arguments: dict[str, Any]) -> CallToolResult | InputRequired:
        """Call it with the lifespan and threads of its own server."""
        invocation.server = home_of(self)
        return await super().invoke(invocation, arguments)


class MountedPrompt(RegisteredPrompt):
    """A prompt of another server, under a name of this one."""

    def __init__(self, mount: Mount, origin: RegisteredPrompt) -> None:
        super().__init__(origin.function, origin.binding, mount.renamed(origin.definition))
        self.mount = mount
        self.origin = origin

    async def get(self, invocation: Invocation, arguments: dict[str, Any]) -> GetPromptResult | InputRequired:
        """Fill it in with the lifespan and threads of its own server."""
        invocation.server = home_of(self)
        return await super().get(invocation, arguments)


class MountedResource(RegisteredResource):
    """A resource of another server; its URI is its own."""

    def __init__(self, mount: Mount, origin: RegisteredResource) -> None:
        super().__init__(origin.function, origin.binding, origin.definition, origin.hints)
        self.mount = mount
        self.origin = origin

    async def read(
        self, invocation: Invocation, uri: str, variables: dict[str, Any]
    ) -> ReadResourceResult | InputRequired:
        """Read it with the lifespan and threads of its own server."""
        invocation.server = home_of(self)
        return await super().read(invocation, uri, variables)


Mounted = (MountedTool, MountedPrompt, MountedResource)


def home_of(item: MountedTool | MountedPrompt | MountedResource) -> ServerCore:
    """The server that it was registered with, through any number of mounts."""
    while isinstance(item.origin, Mounted):
        item = item.origin
    return item.mount.child


class Mount:
    """The items of one server that another one offers.

    Tools and prompts get the prefix and an underscore before their names. URIs stay as they are: they are
    addresses, and what a handler returns may hold them.
    """

    def __init__(self, parent: ServerCore, child: ServerCore, prefix: str | None) -> None:
        self.parent = parent
        self.child = child
        self.prefix = f"{prefix}_" if prefix else ""

    def renamed(self, definition: Any) -> Any:
        """The definition of a tool or a prompt as clients of the outer server see it."""
        return msgspec.structs.replace(definition, name=self.prefix + definition.name)

    def synchronize(self) -> None:
        """Offer what the mounted server offers now: remove what is gone, add what is new."""
        parent, child = self.parent, self.child
        self._copy(child.tools, parent.tools, MountedTool, self.prefix)
        self._copy(child.prompts, parent.prompts, MountedPrompt, self.prefix)
        self._copy(child.resources, parent.resources, MountedResource, "")
        self._copy(child.templates, parent.templates, MountedResource, "")

    def undo(self) -> None:
        """Remove every item of the mounted server."""
        parent = self.parent
        for ours in (parent.tools, parent.prompts, parent.resources, parent.templates):
            for key, item in ours.items():
                if isinstance(item, Mounted) and item.mount is self:
                    ours.remove(key)

    def find_completion(self, reference: str, argument: str) -> tuple[ServerCore, RegisteredCompletion] | None:
        """The completion of an argument of the mounted server, whose names have no prefix there."""
        if reference in self.child.templates:
            return self.child.find_completion(reference, argument)
        if not reference.startswith(self.prefix):
            return None
        return self.child.find_completion(reference.removeprefix(self.prefix), argument)

    def _copy(self, theirs: Registry[Item], ours: Registry[Item], kind: Any, prefix: str) -> None:
        offered = {prefix + key: item for key, item in theirs.items()}
        for key, item in ours.items():
            if isinstance(item, Mounted) and item.mount is self and offered.get(key) is not item.origin:
                ours.remove(key)
        for key, item in offered.items():
            present = ours.get(key)
            if present is None:
                ours.add(key, kind(self, item))
            elif not (isinstance(present, Mounted) and present.mount is self):
                raise LocalError(f"The mounted server {self.child.info.name!r} has {key!r}, which is taken already")


def mount(parent: ServerCore, child: ServerCore, prefix: str | None) -> None:
    """Mount one server in another, with a prefix before the names of its tools and prompts."""
    _check_mountable(parent, child)
    mount = Mount(parent, child, prefix)
    try:
        mount.synchronize()
    except LocalError:
        mount.undo()
        raise
    parent.mounts.append(mount)
    child.mounted_in.append(mount)


def _check_mountable(parent: ServerCore, child: ServerCore) -> None:
    """Refuse a mount that would be circular, or that would bypass the access rules of the mounted server."""
    if child is parent or parent in child.mounted():
        raise LocalError("A server cannot be mounted in itself")
    if child.guarded:
        raise LocalError(
            f"The server {child.info.name!r} has middleware or authorization, or hides things from some principals, "
            "which would not hold where it is mounted; give them to the outer server"
        )
    if parent.serving:
        raise LocalError("Mount servers before the first client comes: their lifespan is entered with this one's")
