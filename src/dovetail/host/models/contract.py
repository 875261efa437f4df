"""Model contract: types of the protocol in, types of the protocol out.

A conversation is one of `SamplingMessage`s with tools, as a server's own request for sampling is, so that chat
and sampling go the same way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from dovetail.types.client_features import CreateMessageParams, CreateMessageResult


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Traits of a model, each from 0 (bad) to 1 (good); for servers' preferences."""

    cheap: float = 0.5
    fast: float = 0.5
    clever: float = 0.5


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer, as soon as it is there."""

    text: str


ModelEvent: TypeAlias = TextDelta | CreateMessageResult
"""Any number of pieces, then the whole answer, which comes last and once."""


@runtime_checkable
class Model(Protocol):
    """A model that goes on with a conversation."""

    @property
    def name(self) -> str:
        """The name of the model at its provider, which hints are compared with."""
        ...

    @property
    def traits(self) -> Traits:
        """Its traits, for servers' preferences."""
        ...

    def respond(self, params: CreateMessageParams) -> AsyncIterator[ModelEvent]:
        """Go on with a conversation; giving up the iterator stops the model."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
