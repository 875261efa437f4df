"""The server under development: a process and its client, replaced when the code changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dovetail.cli.traffic.pairing import TrafficLog
from dovetail.client.targets.python_files import split_object
from dovetail.host.events import TrafficLine
from dovetail.protocol.errors import DovetailError
from dovetail.testing.interface_reader import Interface, interface
from dovetail.types.prompts import Prompt
from dovetail.types.resources import Resource, ResourceTemplate
from dovetail.types.serialization import load
from dovetail.types.tools import Tool

from .difference import interface_difference

if TYPE_CHECKING:
    from dovetail.cli.traffic.exchange import TrafficExchange
    from dovetail.client.client import Client
    from dovetail.client.elicitation import Elicitation
    from dovetail.types.client_features import CreateMessageParams

_KEY = 7
"""Characters of the file's name in the name of a version, which has to fit the column of the traffic."""


_HELD = 200
"""Lines of stderr that are held back while a server starts."""


class DevListener(Protocol):
    """Receives the events of a server under development."""

    def exchanged(self, exchange: TrafficExchange) -> None:
        """A request was answered, or a notification came."""
        ...

    def wrote(self, line: str) -> None:
        """The process wrote a line to stderr."""
        ...

    def logged(self, level: str, data: Any, logger: str | None) -> None:
        """The server sent a log message."""
        ...

    def changed(self, difference: str) -> None:
        """The interface changed, by a reload or at run time; an empty text if it stayed the same."""
        ...

    async def elicit(self, question: Elicitation) -> Any:
        """The server asks the user."""
        ...

    async def sample(self, request: CreateMessageParams) -> str:
        """The server asks a model."""
        ...


class DevServer:
    """Runs a file as a server. A new version replaces the old one once it has started."""

    def __init__(
        self,
        file: str,
        arguments: Sequence[str],
        listener: DevListener,
        *,
        revision: str | None,
        timeout: float | None,
    ) -> None:
        path, _ = split_object(file)
        self.path = os.path.abspath(path)
        self.traffic = TrafficLog()
        self.interface: Interface = {}
        self.version = 0
        """Counts the versions that were started."""
        self._words = [self.path + file[len(path) :], "--", *arguments]
        self._listener = listener
        self._revision = revision
        self._timeout = timeout
        self._client: Client | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client:
        """The client of the current version; LocalError while none runs."""
        from dovetail.protocol.errors import LocalError

        if self._client is None:
            raise LocalError("The server does not run; it is started again when its code changes")
        return self._client

    def tools(self) -> list[Tool]:
        """The tools of the current version."""
        return [load(Tool, {"name": name, **item}) for name, item in self._items("tools")]

    def resources(self) -> list[Resource]:
        """The resources of the current version."""
        return [load(Resource, {"uri": uri, **item}) for uri, item in self._items("resources")]

    def templates(self) -> list[ResourceTemplate]:
        """The resource templates of the current version."""
        return [load(ResourceTemplate, {"uriTemplate": uri, **item}) for uri, item in self._items("resource_templates")]

    def prompts(self) -> list[Prompt]:
        """The prompts of the current version."""
        return [load(Prompt, {"name": name, **item}) for name, item in self._items("prompts")]

    def _items(self, kind: str) -> Iterable[tuple[str, dict[str, Any]]]:
        return self.interface.get(kind, {}).items() if self.client else ()

    @property
    def running(self) -> bool:
        """True if a version runs."""
        return self._client is not None

    async def start(self) -> None:
        """Start the code as it is now, and end the version before; raises DovetailError if it does not start.

        Then the version before goes on, if there is one.
        """
        stderr = _StartupStderr(self._listener.wrote)
        client = self._new_client(stderr)
        await client.open()
        try:
            described = await interface(client)
        except BaseException:
            await client.close()
            raise
        stderr.started()
        before, self.interface = self.interface, described
        first = self._client is None and not before
        await self.close()
        self._client = client
        self._watching = asyncio.create_task(self._watch(client))
        if not first:
            self._listener.changed(interface_difference(before, described))

    async def close(self) -> None:
        """End the process."""
        client, self._client = self._client, None
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None
        if client is not None:
            await client.close()

    def _new_client(self, stderr: _StartupStderr) -> Client:
        from dovetail.client.client import Client

        self.version += 1
        stem = os.path.splitext(os.path.basename(self.path))[0]
        return Client(
            [sys.executable, "-P", "-m", "dovetail.cli", "run", *self._words],
            revision=self._revision,
            timeout=self._timeout,
            # Python takes a .pyc for fresh when source and .pyc share size and second: an edit could go unseen.
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            inherit_env=True,
            on_stderr=stderr.line,
            on_log=self._listener.logged,
            log_level="debug",
            on_elicit=self._listener.elicit,
            on_sample=self._listener.sample,
            trace=self._tracer(f"{stem[:_KEY]}:{self.version}"),
        )

    def _tracer(self, name: str) -> Callable[[Literal["sent", "received"], bytes], None]:
        def trace(direction: Literal["sent", "received"], message: bytes) -> None:
            line = TrafficLine(at=time.time(), server=name, direction=direction, message=message, size=len(message))
            for exchange in self.traffic.add(line):
                # A request is shown with its answer, and what belongs to it with the request.
                if exchange.answer is line or exchange.outcome not in ("waiting", "ok"):
                    self._listener.exchanged(exchange)

        return trace

    async def _watch(self, client: Client) -> None:
        """Report changes of lists while the server runs."""
        offers = client.capabilities
        kinds = {kind: getattr(offers, kind) is not None for kind in ("tools", "resources", "prompts")}
        if not any(kinds.values()):
            return
        with contextlib.suppress(DovetailError):
            async with contextlib.aclosing(client.watch(**kinds)) as lists:
                async for _ in lists:
                    before, self.interface = self.interface, await interface(client)
                    if difference := interface_difference(before, self.interface):
                        self._listener.changed(difference)


class _StartupStderr:
    """Lines of stderr, held back until the server has started: the error of one that does not start quotes them."""

    def __init__(self, wrote: Callable[[str], None]) -> None:
        self._wrote = wrote
        self._held: deque[str] | None = deque(maxlen=_HELD)

    def line(self, text: str) -> None:
        """Hold a line back, or pass it on."""
        if self._held is not None:
            self._held.append(text)
        else:
            self._wrote(text)

    def started(self) -> None:
        """Pass on what was held back, and from now on every line."""
        held, self._held = self._held, None
        for text in held or ():
            self._wrote(text)
