"""Base class of models behind a provider's library: keys, timeouts, retries and error translation."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from types import ModuleType
from typing import ClassVar, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from dovetail.types.client_features import CreateMessageParams
from dovetail.types.errors import missing_extra

from .contract import ModelEvent, Traits
from .errors import error_text, translate_error

TIMEOUT = 120.0
"""Seconds that an endpoint may be silent; a big model thinks before its first word."""

NO_KEY = "none"
"""Sent where a server of one's own asks for no key, since the libraries insist on one."""


class ClosableClient(Protocol):
    """A library's client."""

    def close(self) -> Awaitable[None]:
        """Close connections."""
        ...


ClientT = TypeVar("ClientT", bound=ClosableClient)


class RemoteModel(Generic[ClientT]):
    """A model that a library reaches; the library is imported with the first question.

    Keys come from the environment, as the library reads them, unless one is given. With a `base_url` they do not:
    a key of one provider is not for the server of another. For the same reason no redirect is followed.
    """

    package: ClassVar[str]
    """The library, which is the name of the extra too."""
    key_names: ClassVar[tuple[str, ...]]
    """The variables that hold keys."""
    headers_name: ClassVar[str]
    """The variable that holds headers which the library sends."""

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        traits: Traits | None = None,
        timeout: float = TIMEOUT,
        retries: int = 2,
        context_window: int | None = None,
    ) -> None:
        """`context_window` is the number of tokens that the model can read; it is only shown."""
        if importlib.util.find_spec(self.package) is None:
            raise missing_extra(self.package, f"The model {name}")
        self._name = name
        self.context_window = context_window
        self._traits = traits or Traits()
        self._given_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._retries = retries
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, ClientT] = WeakKeyDictionary()
        """Connections belong to the loop that they were made on."""
        self._tepid = False
        """The endpoint takes no temperature, which is advice and no more (sampling, "Creating Messages")."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        """The name of the model at its provider."""
        return self._name

    @property
    def traits(self) -> Traits:
        """Its traits, for servers' preferences."""
        return self._traits

    async def respond(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        """Go on with a conversation; closing the iterator closes the connection."""
        try:
            async with aclosing(self._stream(params)) as events:
                async for event in events:
                    yield event
        except Exception as problem:
            raise self._failure(problem) from None  # the library's own error may quote the key

    async def close(self) -> None:
        """Close connections."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _client(self) -> ClientT:
        """The library's client for this loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            await self._library()
        if loop not in self._clients:  # another task may have been quicker
            self._clients[loop] = self._make()
        return self._clients[loop]

    def _make(self) -> ClientT:
        raise NotImplementedError

    def _stream(self, params: CreateMessageParams) -> AsyncGenerator[ModelEvent]:
        raise NotImplementedError

    async def _library(self) -> ModuleType:
        """The library, imported in a thread because it takes a second."""
        return await asyncio.to_thread(importlib.import_module, self.package)

    def _key(self) -> str | None:
        """The key to give to the library; None lets it look for one."""
        if self._given_key is not None or self._base_url is None:
            return self._given_key
        return NO_KEY

    def _foreign_headers(self) -> list[str]:
        """Headers that the library would add from the environment, and that are not for this server."""
        if self._base_url is None:
            return []
        lines = os.environ.get(self.headers_name, "").splitlines()
        return [name for line in lines if (name := line.partition(":")[0].strip())]

    def _temperature(self, params: CreateMessageParams) -> float | None:
        return None if self._tepid else params.temperature

    def _warms_to(self, problem: Exception, params: CreateMessageParams) -> bool:
        """True if the same request may do without its temperature."""
        if self._temperature(params) is None or getattr(problem, "status_code", None) != 400:
            return False
        self._tepid = "temperature" in error_text(problem)
        return self._tepid

    def _failure(self, problem: Exception) -> Exception:
        keys = [self._given_key, *(os.environ.get(name) for name in self.key_names)]
        return translate_error(problem, self._name, [key for key in keys if key])
