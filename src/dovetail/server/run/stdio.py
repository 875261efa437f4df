"""`server.run("stdio")`: a process that serves one client over stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from dovetail.server.connection import ConnectionRunner

from .signals import run_until_signalled

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore


def run_stdio(core: ServerCore, grace: float) -> None:
    """Serve over stdin and stdout until the client closes them or a signal ends it."""
    from dovetail.transports.stdio import StdioChannel, replace_closed_standard_streams

    replace_closed_standard_streams()
    if os.isatty(0):
        with contextlib.suppress(OSError, AttributeError):  # stderr may be closed
            sys.stderr.write(f"{core.info.name} waits for an MCP client on stdin; Ctrl-C ends it.\n")
    run_until_signalled(lambda: ConnectionRunner(core, StdioChannel(), grace), grace)
