"""Limits of the connections that requests arrive on, whichever parser reads them."""

from __future__ import annotations

MAX_HEAD_BYTES = 65_536
"""Twice the limit of the application, so that a head a little above that is answered by the application."""

HEAD_SECONDS = 30.0
"""Seconds within which a head must arrive, and a new connection must send its first byte."""


def is_body_header(name: bytes, value: bytes) -> bool:
    """True if the header announces a body."""
    return name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
