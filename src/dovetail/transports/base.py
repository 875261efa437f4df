"""Transport contract: a `Channel` sends and reads whole messages, with backpressure, and calls a `Receiver`.

Both are public: a channel of your own gives `Client` and `Server.serve` another transport. A line is one whole message
as bytes of JSON, however the transport delimits it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dovetail.wire.codec import Decoded
from dovetail.wire.jsonrpc import Id, Notification, Request
from dovetail.wire.lines import TooLong

if TYPE_CHECKING:
    from dovetail.protocol.revisions.revision import Revision
    from dovetail.types.tools import Tool

MAX_LINE = 16 * 1024 * 1024
"""The longest message that a server accepts over stdio and sockets.

A longer one is dropped while it arrives, and answered with an error.
"""

MAX_RECEIVED = 64 * 1024 * 1024
"""The longest message that a client accepts from its server, over every transport."""

MESSAGE_LIMIT_OPTION = "max_message_bytes"
"""The option of a client that sets another limit; errors name it."""

HIGH_WATER = 256 * 1024
"""Above this many unsent bytes a channel is congested."""


class Receiver(Protocol):
    """Receives what a channel reads. All methods are called on the event loop's thread."""

    def received(self, line: bytes) -> Decoded | None:
        """One message arrived; messages come in order, and none while the channel is paused.

        Returns the decoded message, so that a channel that waits for an answer need not parse the line a second time.
        """
        ...

    def overlong(self, line: TooLong) -> None:
        """A message above the size limit was dropped; its beginning and end may hold the id to respond to."""
        ...

    def failed(self, id: Id, problem: Exception) -> None:
        """A request that was sent will get no response; the connection goes on."""
        ...

    def disconnected(self, reason: str | None) -> None:
        """Nothing more will arrive: called once, after everything that arrived, and not when we closed the channel.

        `reason` is None when the peer has ended its side only and still reads; then its calls are finished first.
        """
        ...


class MessageSink(Protocol):
    """Destination of the messages about one request: the channel that all share, or a stream of its own."""

    @property
    def congested(self) -> bool:
        """True if the peer reads more slowly than we write."""
        ...

    @property
    def no_requests(self) -> str | None:
        """The reason why no request can be sent to the peer here; None where it can."""
        ...

    def send(self, line: bytes) -> None:
        """Send one message; never blocks and never fails."""
        ...

    def finish(self, line: bytes | None) -> None:
        """Send the last message about the request; None where it ends without an answer."""
        ...

    def disconnect(self, retry: float) -> None:
        """Close the HTTP connection; the client reconnects after so many seconds, where the sink is resumable."""
        ...

    async def drained(self) -> None:
        """Wait until the sink is not congested, or is lost."""
        ...


class Sender(Protocol):
    """The sending half of a connection."""

    @property
    def congested(self) -> bool:
        """True if the peer reads more slowly than we write."""
        ...

    def send(self, line: bytes) -> None:
        """Send one message, without its newline; never blocks and never fails, also when the peer is gone."""
        ...

    def flush(self) -> None:
        """Write what is buffered now, and not together with what else is sent in this turn of the loop."""
        ...

    async def drained(self) -> None:
        """Wait until the connection is not congested, or is lost."""
        ...

    async def close(self) -> None:
        """Send what is still buffered within a bounded time, then release the connection.

        It may be called twice, on a channel that was never opened, and when the peer is long gone.
        """
        ...


class Reader(Protocol):
    """The reading half of a connection."""

    def open(self, receiver: Receiver) -> None:
        """Begin to read; called once, on the running loop."""
        ...

    def pause(self) -> None:
        """Deliver no more messages and stop reading, so that a peer that sends too much has to wait."""
        ...

    def resume(self) -> None:
        """Read again, beginning with what was read before the pause."""
        ...


class Channel(Sender, Reader, Protocol):
    """One connection that carries messages both ways; it is opened at most once and closed by its opener."""


class ProgramChannel:
    """Base class of channels to a program that the client has started, and whose stderr it may hold back at first."""

    @property
    def has_read_input(self) -> bool:
        """True if the program may have read what it was sent."""
        raise NotImplementedError

    def explain(self, problem: str) -> str:
        """The text of an error about the program, with the last lines that it wrote."""
        raise NotImplementedError

    def started(self) -> None:
        """The handshake is done: drop the lines of stderr that were held back, and pass on the later ones."""
        raise NotImplementedError

    def start_cancelled(self) -> None:
        """Pass on the lines of stderr that were held back, unless the handshake was done."""
        raise NotImplementedError


class RequestChannel:
    """Base class of the client's channels over HTTP, where every message is a POST of its own.

    Deriving from it declares that the channel uses the values of a message beside its bytes (for HTTP headers) and the
    agreed revision, and that it may cancel a request by closing its connection.
    """

    def send(self, line: bytes, message: Request | Notification | None = None) -> None:
        """Send one message; `message` holds the values that `line` was encoded from, None for answers."""
        raise NotImplementedError

    def agreed(self, revision: Revision) -> None:
        """Use the revision that both sides have agreed on from now on."""
        raise NotImplementedError

    ended_session: str | None = None
    """The session that the server has ended and that no other has followed yet, where the channel has sessions."""

    on_interrupted: Callable[[], None] | None = None
    """Called when messages that belong to no request may have been lost: the session has ended, or their stream."""

    def withdraw(self, id: Id) -> bool:
        """Cancel a request by closing its connection; False where a cancellation has to be sent instead."""
        return False

    def learn_tools(self, tools: list[Tool]) -> list[Tool]:
        """Learn which arguments of which tools go into headers; returns the tools that can be called."""
        return tools

    async def wait_for_get_stream(self) -> None:
        """Wait, within bounds, until the server can send messages that belong to no request."""
