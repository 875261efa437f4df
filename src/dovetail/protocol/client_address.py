"""The address of an HTTP client, and the key under which limits count a client.

Limits count by principal. Without authentication they count by address, where an IPv6 client counts with its whole /64
network, because one machine has all addresses of it. A proxy's address is replaced by the one that the proxy names
in `X-Forwarded-For`, if the proxy is trusted to do so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from .errors import LocalError

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

FORWARDED_FOR = b"x-forwarded-for"

UNIX = "unix"
"""In `trusted_proxies`: a proxy that connects over a Unix socket, which has no address."""

LOCAL_PROXIES = ("127.0.0.0/8", "::1", UNIX)

_CLIENT_PREFIX = 64
"""Bits of an IPv6 address that identify a client: the smallest network that is assigned to one (RFC 6177)."""

_MOST_REMEMBERED = 4096
_LONGEST = 64
"""The longest text that can be an address, with blanks and a port; longer ones are not worth remembering."""


class AddressKey(NamedTuple):
    """The key of a client without a principal; it equals no principal."""

    address: str


def client_text(key: Hashable) -> str:
    """The key of a client as text, where a principal with the name of an address is not that address."""
    if isinstance(key, AddressKey):
        return key.address
    return "" if key is None else f"principal {key}"


class TrustedProxies(msgspec.Struct, frozen=True):
    """The proxies that are trusted to name the addresses of their clients."""

    networks: tuple[Network, ...]
    unix: bool

    @staticmethod
    def build(entries: Sequence[str] | None = None) -> TrustedProxies:
        """The proxies of the option `trusted_proxies`; by default those on this machine. LocalError for a bad entry."""
        if isinstance(entries, str):
            raise LocalError(f"A list is needed, not a text: [{entries!r}]")
        named = LOCAL_PROXIES if entries is None else entries
        return TrustedProxies(tuple(_network(entry) for entry in named if entry != UNIX), UNIX in named)

    def client_address(self, peer: str, forwarded: bytes | None) -> str:
        """The address of a client, by its connection and by `X-Forwarded-For`; empty for a Unix socket.

        Each proxy adds the address that it was connected from at the end, so the client is the last address that is
        not a trusted proxy itself. Whatever stands before it may be invented.
        """
        address = peer
        if forwarded is None or not self._trusts(peer):
            return address
        for entry in reversed(forwarded.split(b",")):
            named = _parse(entry.decode("latin-1")) if len(entry) <= _LONGEST else None
            if named is None:
                break
            address = str(named)
            if not self._trusts(address):
                break
        return address

    def _trusts(self, address: str) -> bool:
        if not address:
            return self.unix
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self.networks)


def client_key(principal: str | None, address: str) -> Hashable:
    """The key of a client: its principal, or else its address or network."""
    return principal if principal is not None else AddressKey(counted_address(address))


@lru_cache(_MOST_REMEMBERED)
def counted_address(address: str) -> str:
    """The address as limits count it: that of an IPv6 client is its network."""
    parsed = _parse(address)
    if parsed is None or parsed.version == 4:
        return address if parsed is None else str(parsed)
    return str(ipaddress.ip_network((parsed, _CLIENT_PREFIX), strict=False))


@lru_cache(_MOST_REMEMBERED)
def _parse(text: str) -> Address | None:
    """An address, maybe with a port; an IPv4 address that is written as IPv6 is the same client as without."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return address if address.version == 4 else address.ipv4_mapped or address


def _network(entry: str) -> Network:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError as problem:
        raise LocalError(f"A trusted proxy is an address, a network or 'unix', not {entry!r}") from problem
