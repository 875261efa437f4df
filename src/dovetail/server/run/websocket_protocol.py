"""uvicorn's WebSocket protocol, which reads nothing from a peer that does not read either."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that holds a limited number of bytes for its peer, and no more of a message than its bytes."""

    transport: Any
    _writing_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is lost."""
        self.transport.lost()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer does not read: nor do we, since every ping that we read has to be answered."""
        super().pause_writing()
        self._writing_paused = True
        self.transport.pause_reading()
        self.transport.writing_paused()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        super().resume_writing()
        self._writing_paused = False
        self.transport.writing_resumed()
        if not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """The next event; reading goes on when the application has taken it, unless the peer does not read."""
        event = await super().receive()
        if self._writing_paused:
            self.transport.pause_reading()
        return event

    def handle_cont(self, event: Any) -> None:
        """Join the fragments of a message as they arrive: a list of them would grow with empty ones too."""
        frames: list[Any] = self.frames
        if isinstance(frames[0], bytearray):
            frames[0] += event.data
        else:
            frames[0] = bytearray(frames[0]) + event.data
        if event.fin:
            self.send_receive_event_to_app()
