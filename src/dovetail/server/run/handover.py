"""Listening sockets that a parent process hands over, so that a server can be replaced without a refused connection.

`dovetail serve --reload` binds the sockets, and each of its child processes serves on them in turn. A child says when
it has started, and ends when its parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Sequence
from typing import NamedTuple

VARIABLE = "DOVETAIL_HANDOVER"
"""Environment variable of the child: descriptors of the sockets, of both pipes, and which start it is."""


class Handover(NamedTuple):
    """The sockets and pipes that a parent hands over, as descriptors."""

    sockets: Sequence[int]
    """Bound, and listening."""
    started: int
    """Gets a byte when the child serves."""
    parent: int
    """Is closed when the parent ends."""
    again: bool
    """True if this child replaces another one."""

    def encode(self) -> str:
        """The value of the environment variable."""
        return f"{','.join(map(str, self.sockets))}:{self.started}:{self.parent}:{int(self.again)}"

    @classmethod
    def take(cls) -> Handover | None:
        """The handover to this process; None the second time, and for its own children."""
        text = os.environ.pop(VARIABLE, None)
        if text is None:
            return None
        sockets, started, parent, again = text.split(":")
        return cls([int(each) for each in sockets.split(",")], int(started), int(parent), again == "1")

    def open_sockets(self) -> list[socket.socket]:
        """The sockets; from now on this process ends with its parent."""
        threading.Thread(target=self._end_with_parent, daemon=True).start()
        opened = [socket.socket(fileno=descriptor) for descriptor in self.sockets]
        for one in opened:
            one.setblocking(False)
            one.set_inheritable(False)
        return opened

    def report_started(self) -> None:
        """Tell the parent that this process serves."""
        with contextlib.suppress(OSError):
            os.write(self.started, b"+")
            os.close(self.started)

    def _end_with_parent(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self.parent, 1)
        signal.raise_signal(signal.SIGTERM)
