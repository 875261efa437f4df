"""Protection against server-side request forgery: the URLs and IP addresses that a client may connect to.

2026-07-28 security considerations, "Communication Security"; RFC 9728, section 7.7. A URL from a peer is checked before
it is used. The addresses of its host are checked before the client connects, and only to a checked address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from .errors import Untrusted, printable

MAX_URL = 2048

Address: TypeAlias = "IPv4Address | IPv6Address"

_URL = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(
    r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?"
)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")

_METADATA = frozenset(
    map(
        ip_address,
        (
            *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
        ),
    )
)
"""Metadata services, where clouds give credentials to any local client; some are outside all special ranges."""

_RANGES_4 = tuple(
    (IPv4Network(network), address_kind)
    for network, address_kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "reserved"),
        ("192.52.193.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_RANGES_6 = tuple(
    (IPv6Network(network), address_kind)
    for network, address_kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "translated"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_TEREDO = IPv6Network("2001::/32")
_6TO4 = IPv6Network("2002::/16")
_LAST_32 = tuple(map(IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")))
"""NAT64 (RFC 6052), SIIT (RFC 2765) and the old IPv4-compatible form: the last 32 bits are an IPv4 address."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_SHARED_WITH_SERVER = ("loopback", "private", "shared", "site-local")


def check_url(url: str, what: str, *, source: str | None = None) -> SplitResult:
    """Split a URL from a peer, or raise `Untrusted`.

    It must be https, or http to a loopback host; without user name, fragment, or characters that parsers treat
    differently. Only a peer on a loopback host may name one: `source` is the URL of that peer.
    """
    if len(url) > MAX_URL or not _URL.fullmatch(url) or "\\" in url:
        raise Untrusted(f"{what} is not a URL that can be used: {_shown(url)}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise Untrusted(f"{what} is not a URL that can be used: {_shown(url)}") from None
    if parts.scheme not in ("https", "http"):
        raise Untrusted(f"{what} is not an http or https URL: {_shown(url)}")
    if not host or port == 0 or not _is_host(host, "[" in parts.netloc):
        raise Untrusted(f"{what} names no host that can be used: {_shown(url)}")
    if "@" in parts.netloc or "#" in url:
        raise Untrusted(f"{what} has a user name or a fragment, which is not allowed: {_shown(url)}")
    local = is_loopback(host)
    if parts.scheme == "http" and not local:
        raise Untrusted(f"{what} is not https, and not on a loopback host: {_shown(url)}")
    if local and source is not None and not is_loopback(urlsplit(source).hostname or ""):
        raise Untrusted(f"{what} is on a loopback host, but {_shown(source)}, which named it, is not: {_shown(url)}")
    return parts


def is_loopback(host: str) -> bool:
    """True if the host of a URL is a loopback name or address."""
    host = host.lower().removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _literal(host)
    return address is not None and address_kind(address) == "loopback"


def address_kind(address: Address) -> str | None:
    """The special range that an address is in; None for an address of the public internet.

    An IPv4 address inside an IPv6 address counts: as itself if the system connects to it directly, and as `embedded`
    if a gateway would.
    """
    if address in _METADATA:
        return "metadata"
    if isinstance(address, IPv4Address):
        return next((name for network, name in _RANGES_4 if address in network), None)
    if address.ipv4_mapped is not None:
        return address_kind(address.ipv4_mapped)
    inner = _embedded(address)
    if inner:
        return "embedded" if any(map(address_kind, inner)) else None
    special = next((name for network, name in _RANGES_6 if address in network), None)
    return special or (None if address in _GLOBAL_6 else "reserved")


def refusal_reason(address: str, server_addresses: Iterable[str] = ()) -> str | None:
    """The reason why the client must not connect to an address; None if it may.

    `server_addresses` are those of the MCP server itself: a server on a loopback or private address may name others
    there. No other special address is allowed, except the server's own.
    """
    parsed = _literal(address)
    if parsed is None:
        return "it is not an address"
    special = address_kind(parsed)
    if special is None:
        return None
    known = [each for each in map(_literal, server_addresses) if each is not None]
    if special != "metadata":
        if any(_unmapped(each) == _unmapped(parsed) for each in known):
            return None
        if special in _SHARED_WITH_SERVER and any(address_kind(each) == special for each in known):
            return None
    return f"it is a {special} address"


def allowed_addresses(parts: SplitResult, addresses: Iterable[str], server_addresses: Iterable[str] = ()) -> list[str]:
    """The addresses of a URL's host that the client may connect to; raises `Untrusted` if there are none.

    Without TLS these are loopback addresses only, whatever a name such as `x.localhost` resolves to.
    """
    server_addresses, refusals, good = tuple(server_addresses), list[str](), list[str]()
    for address in addresses:
        why = refusal_reason(address, server_addresses)
        if why is None and parts.scheme != "https" and not is_loopback(address):
            why = "it is not a loopback address, and the URL is not https"
        if why is None:
            good.append(address)
        else:
            refusals.append(f"{printable(address)}: {why}")
    if not good:
        host = printable(parts.hostname or "")
        raise Untrusted(f"{host} is not allowed as a target ({'; '.join(refusals[:4]) or 'it has no address'})")
    return good


def redirect_target(url: str, location: str, what: str) -> str:
    """The target of a redirect of a GET request, which must be within its origin."""
    if not _URL.fullmatch(location):  # urljoin would silently drop invalid characters
        raise Untrusted(f"{what} redirects to an invalid URL: {_shown(location)}")
    try:
        target = urljoin(url, location)
    except ValueError:
        raise Untrusted(f"{what} redirects to an invalid URL: {_shown(location)}") from None
    parts = check_url(target, what, source=url)
    if origin(parts) != origin(urlsplit(url)):
        raise Untrusted(f"{what} redirects to another origin: {_shown(target)}")
    return target


def origin(parts: SplitResult) -> tuple[str, str, int]:
    """The origin of a URL: scheme, host and port."""
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    bits = int(address)
    if address in _TEREDO:
        return [IPv4Address(bits >> 64 & 0xFFFF_FFFF), IPv4Address(bits & 0xFFFF_FFFF ^ 0xFFFF_FFFF)]
    if address in _6TO4:
        return [IPv4Address(bits >> 80 & 0xFFFF_FFFF)]
    if bits > 1 and any(address in network for network in _LAST_32):
        return [IPv4Address(bits & 0xFFFF_FFFF)]
    if bits >> 32 & 0xFFFF_FFFF in _ISATAP and address in _GLOBAL_6:
        return [IPv4Address(bits & 0xFFFF_FFFF)]
    return []


def _literal(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_host(host: str, bracketed: bool) -> bool:
    if bracketed:
        return isinstance(_literal(host), IPv6Address)
    # 127.1, 2130706433 and 0x7f000001 are addresses to some parsers, and names to others.
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):
        return isinstance(_literal(host), IPv4Address)
    return len(host) <= 253 and _NAME.fullmatch(host) is not None


def _shown(url: str) -> str:
    return printable(re.sub(r"//[^/?#]*@", "//…@", url[:MAX_URL]))
