"""Request guard: checks of an HTTP request before its body is read: Host, Origin, method, media types and size.

The checks of Host and Origin keep web pages out that have made their own name point here (Streamable HTTP,
"Security & Endpoint": DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from dovetail.types.bounded_dict import BoundedDict

from .errors import HEADER_MISMATCH, INVALID_REQUEST, LocalError

Headers: TypeAlias = "Mapping[bytes, bytes]"
"""Lower-case names, values without blanks around them."""
Pairs: TypeAlias = "tuple[tuple[bytes, bytes], ...]"

MAX_BODY = 4_000_000
MAX_FORM = 64 * 1024
"""The largest form in bytes that a page accepts."""
MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024

_FORM = b"application/x-www-form-urlencoded"
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = frozenset({"", "0.0.0.0", "::", "[::]"})
_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443"}
_USUAL_PORTS = frozenset({"80", "443"})
_SINGLE = frozenset(
    {b"host", b"origin", b"content-type", b"content-length", b"content-encoding", b"authorization", b"last-event-id"}
)
_BLANKS = b" \t"
_CLOSE = ((b"connection", b"close"),)
_MOST_REMEMBERED = 256
_LONGEST_REMEMBERED = 300


class Refusal(msgspec.Struct, frozen=True):
    """The response to a request that is not served: the status, and the JSON-RPC error for its body."""

    status: int
    code: int
    message: str
    data: Any = None
    headers: Pairs = ()


class AllowedOrigin(msgspec.Struct, frozen=True):
    """A host that is allowed, or an origin if it has a scheme."""

    host: str
    """With a leading dot: every name that ends so."""
    port: str | None
    """None for any."""
    scheme: str | None = None

    def fits(self, host: str, port: str, scheme: str | None) -> bool:
        """True if an address is covered."""
        named = host.endswith(self.host) if self.host.startswith(".") else host == self.host
        # A Host without a port is at the usual one of either scheme; a proxy may have taken the scheme away.
        near = self.port in (None, port) or (not port and self.port in _USUAL_PORTS)
        return named and near and self.scheme == scheme


def _verdicts() -> BoundedDict[bytes, bool]:
    return BoundedDict(_MOST_REMEMBERED)


class RequestGuard(msgspec.Struct, frozen=True, eq=False):
    """The checks of one application; `RequestGuard.build` makes one from options."""

    hosts: tuple[AllowedOrigin, ...] | None
    """None allows every host."""
    origins: tuple[AllowedOrigin, ...] | None
    """None allows every origin."""
    methods: tuple[str, ...]
    max_body: int
    max_headers: int
    max_header_bytes: int
    is_page: bool = False
    """A GET is for a page, in whatever form, and a POST sends a form; otherwise they carry messages."""
    _known_hosts: BoundedDict[bytes, bool] = msgspec.field(default_factory=_verdicts)
    """Verdicts on hosts that were seen: a cache, and the reason that this struct is compared by identity."""
    _known_origins: BoundedDict[bytes, bool] = msgspec.field(default_factory=_verdicts)

    @staticmethod
    def build(
        *,
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
        cors: bool | Sequence[str] = False,
        bound: str | None = None,
        methods: Iterable[str] = ("POST", "GET", "DELETE"),
        max_body: int = MAX_BODY,
        max_headers: int = MAX_HEADERS,
        max_header_bytes: int = MAX_HEADER_BYTES,
    ) -> RequestGuard:
        """The checks for these options; LocalError names an entry that cannot be read.

        A host is `example.com` (any port), `example.com:8443` or `*.example.com`; an origin is
        `https://example.com` (its usual port), with `:*` for any port, or `https://*.example.com`; `*` is
        everything. Loopback is always allowed, and so is `bound`, the host listened on, if it is a concrete one.
        Without `allowed_origins`, pages of the allowed hosts may come; a wildcard does not count for that.
        Origins of `cors` are allowed too.
        """
        for option in (allowed_hosts, allowed_origins, cors):
            if isinstance(option, str):
                raise LocalError(f"A list is needed, not a text: [{option!r}]")
        named = [*_LOOPBACK, *(allowed_hosts or ())]
        if bound is not None and bound not in _EVERYWHERE:
            named.append(bound)
        hosts = [_host_pattern(entry) for entry in named if entry != "*"]
        own = hosts if allowed_origins is None else hosts[: len(_LOOPBACK)]
        origins = [
            AllowedOrigin(host.host, host.port, scheme)
            for host in own
            if not host.host.startswith(".")
            for scheme in ("http", "https")
        ]
        listed = [*(allowed_origins or ()), *(() if isinstance(cors, bool) else cors)]
        origins += [origin_pattern(entry) for entry in listed if entry != "*"]
        return RequestGuard(
            None if "*" in named else tuple(hosts),
            None if "*" in listed else tuple(origins),
            tuple(methods),
            max_body,
            max_headers,
            max_header_bytes,
        )

    def for_methods(self, *methods: str) -> RequestGuard:
        """The same checks for other HTTP methods."""
        return msgspec.structs.replace(self, methods=methods)

    def for_pages(self, *methods: str) -> RequestGuard:
        """The same checks for pages that are no part of the protocol, whose POST requests send forms."""
        return msgspec.structs.replace(self, methods=methods, is_page=True, max_body=min(self.max_body, MAX_FORM))

    def headers(self, raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes] | Refusal:
        """The headers by name, or why they cannot be taken; names are in lower case already, as in ASGI.

        A header that must be clear is refused when it comes twice; others are joined as RFC 9110, 5.3, says. A body
        with two lengths may be an attempt to hide a request in it (RFC 9112, 6.3).
        """
        if len(raw) > self.max_headers:
            return Refusal(431, INVALID_REQUEST, f"More than {self.max_headers} headers")
        by_name = dict(raw)
        # One look at all values together, because a request has a dozen headers and nearly never a bad one: a blank
        # at either end of a value makes two in a row.
        values = b" ".join(by_name.values() if len(by_name) == len(raw) else [value for _, value in raw])
        size = len(values)
        if size + len(b"".join(by_name)) > self.max_header_bytes:
            return Refusal(431, INVALID_REQUEST, f"The headers have more than {self.max_header_bytes} bytes")
        if (
            len(by_name) == len(raw)
            and b"transfer-encoding" not in by_name
            and b"  " not in values
            and len(values.translate(None, b"\r\n\0\t")) == size
            and not values.startswith(b" ")
            and not values.endswith(b" ")
        ):
            return by_name
        return _careful(raw)

    def check_source(self, headers: Headers) -> Refusal | None:
        """Refuse a request that is not for this server (421), or comes from a foreign page (403).

        A request without Host is refused too: no browser sends one, but nothing shows that it is meant for us.
        """
        if self.hosts is not None:
            host = headers.get(b"host", b"")
            allowed = self._known_hosts.get(host)
            if allowed is None:
                allowed = _remember(self._known_hosts, host, _fits_host(self.hosts, host))
            if not allowed:
                return Refusal(421, INVALID_REQUEST, _not_allowed("Host", host, "allowed_hosts"))
        origin = headers.get(b"origin")
        if origin is not None and self.origins is not None:
            allowed = self._known_origins.get(origin)
            if allowed is None:
                allowed = _remember(self._known_origins, origin, fits_origin(self.origins, origin))
            if not allowed:
                return Refusal(403, INVALID_REQUEST, _not_allowed("Origin", origin, "allowed_origins"))
        return None

    def check(self, method: str, headers: Headers) -> Refusal | None:
        """Refuse a request to the endpoint before its body is read."""
        stranger = self.check_source(headers)
        if stranger is not None:
            return stranger
        if method not in self.methods:
            allow = ((b"allow", ", ".join(self.methods).encode()),)
            return Refusal(405, INVALID_REQUEST, f"Method not allowed: {method[:40]}", headers=allow)
        if method == "POST":
            return self._check_form(headers) if self.is_page else self._check_post(headers)
        if method == "GET" and not self.is_page and not accepted(headers)[1]:
            return Refusal(406, INVALID_REQUEST, "Not acceptable: a GET must accept text/event-stream")
        return None

    def _check_post(self, headers: Headers) -> Refusal | None:
        kind = headers.get(b"content-type", b"")
        if kind != b"application/json" and not _is_json(kind):
            return Refusal(415, INVALID_REQUEST, "Unsupported media type: the body must be application/json in UTF-8")
        accept = headers.get(b"accept")
        if accept is not None and accept not in _USUAL_ACCEPT and _accepted(accept) == (False, False):
            wanted = "application/json and text/event-stream"
            return Refusal(406, INVALID_REQUEST, f"Not acceptable: a POST must accept {wanted}")
        return self._check_body(headers)

    def _check_form(self, headers: Headers) -> Refusal | None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _FORM:
            return Refusal(415, INVALID_REQUEST, f"Unsupported media type: the body must be {_FORM.decode()}")
        return self._check_body(headers)

    def _check_body(self, headers: Headers) -> Refusal | None:
        encoding = headers.get(b"content-encoding")
        if encoding is not None and encoding.lower() not in {b"", b"identity"}:
            return Refusal(
                415, INVALID_REQUEST, "Unsupported content encoding: send the body as it is", headers=_IDENTITY
            )
        length = headers.get(b"content-length")
        if length is None:
            return None
        if not length.isdigit():
            return Refusal(400, INVALID_REQUEST, "The Content-Length is not a number")
        if len(length) > 15 or int(length) > self.max_body:
            return body_too_large(self.max_body)
        return None


def body_too_large(max_body: int) -> Refusal:
    """The refusal of a body above the limit, also of one that did not announce its length."""
    return Refusal(413, INVALID_REQUEST, f"The body has more than {max_body} bytes (max_body)")


def accepted(headers: Headers) -> tuple[bool, bool]:
    """True if an answer may be application/json, and text/event-stream; a request without Accept takes anything."""
    accept = headers.get(b"accept")
    return _BOTH if accept is None or accept in _USUAL_ACCEPT else _accepted(accept)


_BOTH = (True, True)
_USUAL_ACCEPT = frozenset({b"application/json, text/event-stream", b"*/*"})
_IDENTITY: Pairs = ((b"accept-encoding", b"identity"),)


@lru_cache(maxsize=_MOST_REMEMBERED)
def _accepted(accept: bytes) -> tuple[bool, bool]:
    """True if JSON, and whether an event stream is accepted: the most exact range that names a type decides."""
    ranges: dict[str, bool] = {}
    for entry in accept.decode("latin-1").lower().split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        weights = [part[2:] for part in parameters if part.startswith("q=")]
        ranges[kind] = not weights or weights[0].strip("0.") != ""
    return tuple(  # type: ignore[return-value]
        next((ranges[kind] for kind in kinds if kind in ranges), False)
        for kinds in (("application/json", "application/*", "*/*"), ("text/event-stream", "text/*", "*/*"))
    )


def _is_json(kind: bytes) -> bool:
    essence, *parameters = (part.strip() for part in kind.lower().split(b";"))
    charsets = (part[8:].strip(b'"') for part in parameters if part.startswith(b"charset="))
    return essence == b"application/json" and all(charset in {b"utf-8", b"utf8", b"us-ascii"} for charset in charsets)


def _careful(raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes] | Refusal:
    by_name: dict[bytes, bytes] = {}
    for name, value in raw:
        mirrored = name.startswith(b"mcp-")
        code = HEADER_MISMATCH if mirrored else INVALID_REQUEST
        label = name[:100].decode("latin-1")
        if b"\r" in value or b"\n" in value or b"\0" in value:
            return Refusal(400, code, f"The header {label!r} contains a line break or NUL")
        plain = value.strip(_BLANKS)
        if name not in by_name:
            by_name[name] = plain
        elif mirrored or name in _SINGLE:
            return Refusal(400, code, f"The header {label!r} is there more than once")
        else:
            by_name[name] = b"%b, %b" % (by_name[name], plain)
    if b"transfer-encoding" in by_name and b"content-length" in by_name:
        return Refusal(400, INVALID_REQUEST, "Both Content-Length and Transfer-Encoding are there", headers=_CLOSE)
    return by_name


def _remember(verdicts: BoundedDict[bytes, bool], seen: bytes, verdict: bool) -> bool:
    if len(seen) <= _LONGEST_REMEMBERED:
        verdicts[seen] = verdict
    return verdict


def _not_allowed(header: str, seen: bytes, option: str) -> str:
    shown = seen[:200].decode("latin-1") if seen else "none"
    return f"{header} is not allowed: {shown!r}; the server can allow it with {option}"


def _fits_host(patterns: tuple[AllowedOrigin, ...], seen: bytes) -> bool:
    address = _split(seen.decode("latin-1").lower())
    return address is not None and any(pattern.fits(*address, None) for pattern in patterns)


def fits_origin(patterns: tuple[AllowedOrigin, ...], seen: bytes) -> bool:
    """True if an Origin header names one of the allowed origins."""
    scheme, mark, rest = seen.decode("latin-1").lower().partition("://")
    address = _split(rest) if mark else None
    if address is None:
        return False
    host, port = address
    return any(pattern.fits(host, port or _PORTS.get(scheme, ""), scheme) for pattern in patterns)


def _split(address: str) -> tuple[str, str] | None:
    """Host and port; the port is empty where there is none. None for what is no address."""
    if address.startswith("["):
        host, closed, rest = address.partition("]")
        host += closed
        if not closed or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
        bare = not rest
    else:
        host, colon, port = address.partition(":")
        bare = not colon
    if not host or any(mark in host for mark in "/@?#, ") or not (bare or (port.isascii() and port.isdigit())):
        return None
    return host, port


def _host_pattern(entry: str) -> AllowedOrigin:
    problem = f"allowed_hosts takes names such as 'example.com' or '*.example.com', not {entry!r}"
    bare_v6 = entry.count(":") > 1 and not entry.startswith("[") and "/" not in entry
    return _pattern(f"[{entry}]" if bare_v6 else entry, None, problem)


def origin_pattern(entry: str) -> AllowedOrigin:
    """An allowed origin from the text of an option; raises LocalError for one that cannot be read."""
    problem = f"An origin is a scheme and a host, such as 'https://example.com', not {entry!r}"
    scheme, mark, rest = entry.partition("://")
    if not mark or not scheme:
        raise LocalError(problem)
    return _pattern(rest.removesuffix("/"), scheme.lower(), problem)


def _pattern(entry: str, scheme: str | None, problem: str) -> AllowedOrigin:
    wild = entry.endswith(":*")
    address = _split((entry[:-2] if wild else entry).lower())
    if address is None:
        raise LocalError(problem)
    host, port = address
    if host.startswith("*."):
        host = host[1:]
    if "*" in host:
        raise LocalError(problem)
    usual = None if scheme is None else _PORTS.get(scheme, "")
    return AllowedOrigin(host, None if wild else port or usual, scheme)
