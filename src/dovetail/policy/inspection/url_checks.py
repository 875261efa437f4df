"""Checks of a URL that a server sends the user to (elicitation, "Safe URL Handling")."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from .confusables import mixed_alphabets
from .invisible_chars import find_hidden

_AMBIGUOUS = re.compile(r"[\s\\\x00-\x20\x7f]")
"""Characters that programs read in different ways: the user would be shown another host than the browser visits."""
_LOCAL = frozenset({"localhost"})


def url_problem(url: str) -> str | None:
    """The reason not to open a URL; None if it is the address of a page."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "it is no address"
    if parts.scheme not in ("https", "http"):
        return f"{parts.scheme or 'it'} is no address of a page: only https and http are"
    if not parts.hostname:
        return "it names no host"
    return "it has characters that an address cannot have" if _AMBIGUOUS.search(url) else None


def url_concerns(url: str) -> tuple[str, ...]:
    """Warnings for the user before they open a URL."""
    return tuple(_concerns(url, urlsplit(url)))


def _concerns(url: str, parts: SplitResult) -> Iterator[str]:
    host = parts.hostname or ""
    if parts.username is not None or parts.password is not None:
        before = parts.netloc.rpartition("@")[0]
        yield f"The address begins with {before!r}, but leads to {host!r}"
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        yield f"The name of the host {_in_both(host)} has letters that are not ASCII, and may look like another"
    yield from (f"The name of the host {what}" for what in mixed_alphabets(_decoded(host)))
    yield from (f"The address {what}" for what in find_hidden(url))
    if _is_local(host):
        yield f"The address leads to {host!r}, on this machine or in this network"
    elif parts.scheme == "http":
        yield "The address is not encrypted: others can read along, and change what is shown"


def _is_local(host: str) -> bool:
    if host in _LOCAL or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_private or address.is_loopback or address.is_link_local


def _in_both(host: str) -> str:
    try:
        encoded = host.encode("idna").decode()
    except UnicodeError:
        encoded = host
    decoded = _decoded(encoded)
    return f"{decoded!r} ({encoded})" if decoded != encoded else repr(host)


def _decoded(host: str) -> str:
    try:
        return host.encode("idna").decode("idna") if not host.isascii() else host.encode().decode("idna")
    except UnicodeError:
        return host
