"""Where a client may go when a peer names the place.

2026-07-28 security considerations, "Communication Security"; RFC 9728, section 7.7. A URL is checked before it is
used, and the addresses that its host has are checked before one of them is connected to: that one, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from .errors import Untrusted, plain

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
"""Where clouds hand out credentials to whoever asks from inside; some are outside of every special range."""

_KINDS_4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
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
_KINDS_6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
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
_SHARED_WITH_HOME = ("loopback", "private", "shared", "site-local")


def check_url(url: str, what: str, *, beside: str | None = None) -> SplitResult:
    """Take a URL that a peer named apart, or refuse it.

    https, or http to this machine; no user, no fragment, no letters that two readers would read differently.
    This machine may be named only by a peer that is on it itself: `beside` is the URL of that peer.
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
        raise Untrusted(f"{what} has a user name or a fragment, which it must not: {_shown(url)}")
    local = is_loopback(host)
    if parts.scheme == "http" and not local:
        raise Untrusted(f"{what} is not https, and not on this machine: {_shown(url)}")
    if local and beside is not None and not is_loopback(urlsplit(beside).hostname or ""):
        raise Untrusted(f"{what} is on this machine, but {_shown(beside)}, which named it, is not: {_shown(url)}")
    return parts


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine, by its name or address."""
    host = host.lower().removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _literal(host)
    return address is not None and kind(address) == "loopback"


def kind(address: Address) -> str | None:
    """What is special about an address; None for one of the public internet.

    An IPv4 address inside an IPv6 one counts: as itself where the system connects to it directly,
    and as `embedded` where something on the way would.
    """
    if address in _METADATA:
        return "metadata"
    if isinstance(address, IPv4Address):
        return next((name for network, name in _KINDS_4 if address in network), None)
    if address.ipv4_mapped is not None:
        return kind(address.ipv4_mapped)
    inner = _embedded(address)
    if inner:
        return "embedded" if any(map(kind, inner)) else None
    found = next((name for network, name in _KINDS_6 if address in network), None)
    return found or (None if address in _GLOBAL_6 else "reserved")


def refusal(address: str, home: Iterable[str] = ()) -> str | None:
    """Why an address must not be connected to; None if it may be.

    `home` are the addresses at which the server itself was reached: who is on this machine, or in a private network,
    may name others there. Nothing else that is special is ever let through, but a server's own address.
    """
    found = _literal(address)
    if found is None:
        return "it is not an address"
    special = kind(found)
    if special is None:
        return None
    known = [each for each in map(_literal, home) if each is not None]
    if special != "metadata":
        if any(_plain(each) == _plain(found) for each in known):
            return None
        if special in _SHARED_WITH_HOME and any(kind(each) == special for each in known):
            return None
    return f"it is a {special} address"


def screen(parts: SplitResult, addresses: Iterable[str], home: Iterable[str] = ()) -> list[str]:
    """Those of the addresses of a URL's host that may be connected to; refused if there are none.

    Without TLS that is this machine only, whatever a name such as `x.localhost` resolves to.
    """
    home, refusals, good = tuple(home), list[str](), list[str]()
    for address in addresses:
        why = refusal(address, home)
        if why is None and parts.scheme != "https" and not is_loopback(address):
            why = "it is not on this machine, and the URL is not https"
        if why is None:
            good.append(address)
        else:
            refusals.append(f"{plain(address)}: {why}")
    if not good:
        host = plain(parts.hostname or "")
        raise Untrusted(f"{host} must not be connected to ({'; '.join(refusals[:4]) or 'it has no address'})")
    return good


def redirected(url: str, location: str, what: str) -> str:
    """Where a redirect of a GET leads: within its origin, or nowhere."""
    if not _URL.fullmatch(location):  # the join would leave out what it does not like
        raise Untrusted(f"{what} redirects to what is not a URL: {_shown(location)}")
    target = urljoin(url, location)
    parts = check_url(target, what, beside=url)
    if origin(parts) != origin(urlsplit(url)):
        raise Untrusted(f"{what} redirects to another origin: {_shown(target)}")
    return target


def origin(parts: SplitResult) -> tuple[str, str, int]:
    """Scheme, host and port of a URL that was checked."""
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


def _plain(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_host(host: str, bracketed: bool) -> bool:
    if bracketed:
        return isinstance(_literal(host), IPv6Address)
    # 127.1, 2130706433 and 0x7f000001 are addresses to some, and names to others.
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):
        return isinstance(_literal(host), IPv4Address)
    return len(host) <= 253 and _NAME.fullmatch(host) is not None


def _shown(url: str) -> str:
    return plain(re.sub(r"//[^/?#]*@", "//…@", url[:MAX_URL]))
