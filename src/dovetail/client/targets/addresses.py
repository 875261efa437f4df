"""Addresses without a scheme: `localhost:8000/mcp` and `example.com/mcp` as URLs."""

from __future__ import annotations

import ipaddress
import re

DEFAULT_PATH = "/mcp"
"""The path of an address that names none; servers of Dovetail are there."""

_ADDRESS = re.compile(
    r"""(?P<host>localhost | \d{1,3}(?:\.\d{1,3}){3} | \[[0-9A-Fa-f:.]+\] | (?:[A-Za-z0-9-]+\.)+[A-Za-z][A-Za-z0-9-]+)
        (?P<port>:\d{1,5})?
        (?P<path>/[^\s#]*)?""",
    re.VERBOSE | re.ASCII,
)
_LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".test")


def address_url(word: str) -> str | None:
    """The URL that an address without a scheme means; None for a word that is none.

    A name with dots needs a port or a path, since `server.exe` has the same form. Machines of this network are
    reached over http, others over https.
    """
    match = _ADDRESS.fullmatch(word)
    if match is None:
        return None
    host, port, path = match["host"], match["port"] or "", match["path"]
    number = _number(host)
    if number is None and host != "localhost" and not port and path is None:
        return None
    scheme = "http" if _is_local(host, number) else "https"
    return f"{scheme}://{host}{port}{DEFAULT_PATH if path is None else path}"


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _is_local(host: str, number: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if number is not None:
        return number.is_private or number.is_loopback or number.is_link_local
    return host.lower().endswith(_LOCAL_NAMES)
