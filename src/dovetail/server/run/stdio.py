"""`server.run("stdio")`: a process that serves one client over stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from dovetail.server.connection import ConnectionRunner

from .signals import run_until_signalled
from .store_options import StoreOptions, with_store

if TYPE_CHECKING:
    from dovetail.server.core import ServerCore


def run_stdio(core: ServerCore, grace: float, options: StoreOptions | None = None) -> None:
    """Serve over stdin and stdout until the client closes them or a signal ends it."""
    from dovetail.transports.stdio import StdioChannel

    # Before there is an event loop, whose own files would get the numbers of standard streams that are closed.
    prepare_standard_streams(core)
    make = with_store(core, options or {}, grace, lambda: ConnectionRunner(core, StdioChannel(), grace))
    run_until_signalled(make, grace)


def prepare_standard_streams(core: ServerCore) -> None:
    """Replace streams that are closed; a terminal gets a line that says what the program waits for."""
    from dovetail.transports.stdio import replace_closed_standard_streams

    replace_closed_standard_streams()
    if os.isatty(0):
        with contextlib.suppress(OSError, AttributeError):  # stderr may be closed
            sys.stderr.write(f"{core.info.name} waits for an MCP client on stdin; Ctrl-C ends it.\n")
