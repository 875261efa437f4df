"""TLS context of a client: trusted certificates and the client certificate."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dovetail.protocol.errors import LocalError
from dovetail.transports.http.contract import HttpOptions

if TYPE_CHECKING:
    import ssl


def tls_context(options: HttpOptions) -> ssl.SSLContext | None:
    """The TLS context for the options; None where they set nothing about certificates."""
    if options.verify and options.ca is None and options.cert is None:
        return None
    import ssl

    try:
        context = _context(options)
        if options.cert is not None:
            pair = (options.cert,) if isinstance(options.cert, str) else options.cert
            context.load_cert_chain(*pair)
    except (OSError, ssl.SSLError) as problem:
        raise LocalError(f"The certificates cannot be used: {problem}") from problem
    return context


def _context(options: HttpOptions) -> ssl.SSLContext:
    import ssl

    if options.ca is None:
        context = ssl.create_default_context()
    else:
        place = os.fspath(options.ca)
        folder = os.path.isdir(place)
        context = ssl.create_default_context(cafile=None if folder else place, capath=place if folder else None)
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
