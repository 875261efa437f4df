"""HTTP requester: sends requests with the user's headers and credentials, follows redirects, explains errors."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin, urlsplit

from dovetail.protocol.errors import (
    ConnectionLost,
    HttpStatus,
    InvalidAnswer,
    LocalError,
    RemoteError,
    remote_error,
)
from dovetail.text.sanitize import clean_text
from dovetail.wire import codec
from dovetail.wire.jsonrpc import Failure, Id

if TYPE_CHECKING:
    from .contract import Auth, ClientResponse, HttpClient

MAX_REDIRECTS = 5
MAX_REFUSALS = 3
"""Times that refused credentials are replaced during one request."""
MAX_WORDS = 16 * 1024
"""The bytes that are read of an error whose body is no message."""

Token: TypeAlias = "str | Callable[[], str | Awaitable[str]]"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e\t\x80-\xff]*")
_OURS = re.compile(
    r"accept|connection|content-length|content-type|host|last-event-id|transfer-encoding"
    r"|mcp-(?:method|name|protocol-version|session-id|param-.*)"
)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_CREDENTIALS = (401, 403, 407)
_CHECK = {
    401: "it wants credentials: give a token with auth= or a header with headers=, "
    "on the command line with --token-env or --header",
    403: "it does not let this client in: check the credentials, and the hosts and origins it allows",
    404: "check the path of the URL",
    405: "check the path of the URL",
    407: "the proxy wants credentials",
    413: "the message is too large for it",
    421: "it does not answer to this host name",
    429: "it is asked too often",
    502: "what stands before the server cannot reach it",
    503: "the server is not ready, or has too much to do",
    504: "what stands before the server got no answer from it",
}


class HttpRequester:
    """Sends requests to one server, and to no other origin."""

    def __init__(
        self, client: HttpClient, url: str, headers: Mapping[str, str] | None = None, auth: Auth | None = None
    ) -> None:
        self.client = client
        self.url = url
        self._headers = dict(headers or {})
        self._auth = auth

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, url: str | None = None
    ) -> ClientResponse:
        """The response, of whatever status; redirects within the origin are followed and remembered.

        Credentials that the server refuses are replaced, a few times.
        """
        place, auth = url or self.url, self._auth
        redirects, refusals = 0, 0
        while redirects <= MAX_REDIRECTS:
            granted = None if auth is None else await auth.headers(method, place)
            all_headers = {**self._headers, **granted, **headers} if granted else {**self._headers, **headers}
            answer = await self.client.request(method, place, all_headers, body)
            status = answer.status
            if status < 300:
                if auth is not None:
                    auth.accepted(place, answer.headers)
                return answer
            if status in (307, 308) and (location := answer.headers.get("location")) is not None:
                answer.close()
                redirects += 1
                place = self._follow(place, location, status)
                if url is None:
                    self.url = place
            elif status in (401, 403) and granted is not None and auth is not None and refusals < MAX_REFUSALS:
                refusals += 1
                if not await self._replace_credentials(auth, place, granted, answer):
                    return answer
                answer.close()
            else:
                return answer
        raise ConnectionLost(f"{self.url} redirects in a circle")

    async def _replace_credentials(
        self, auth: Auth, place: str, granted: Mapping[str, str], answer: ClientResponse
    ) -> bool:
        try:
            return await auth.refused(place, granted, answer.status, answer.headers)
        except BaseException:
            answer.close()
            raise

    def _follow(self, place: str, location: str, status: int) -> str:
        target = urljoin(place, location)
        if origin(target) != origin(place):
            raise HttpStatus(
                f"{place} redirects to {target}, which is another server: if that is meant, connect to it",
                status,
                place,
            )
        return target


class TokenAuth:
    """Bearer token: a fixed one, or the result of a function that is called again when a server refuses the token."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._headers = _bearer(token) if isinstance(token, str) else None
        self._lock = asyncio.Lock()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The header with the token."""
        if self._headers is None:
            async with self._lock:
                if self._headers is None:
                    self._headers = await self._call_function()
        return self._headers

    def accepted(self, url: str, headers: Mapping[str, str]) -> None:
        """Do nothing: a bearer token needs no confirmation."""

    async def refused(self, url: str, sent: Mapping[str, str], status: int, headers: Mapping[str, str]) -> bool:
        """Call the function for another token, once for several refusals at the same time."""
        if isinstance(self._token, str) or status != 401:
            return False
        async with self._lock:
            if self._headers == sent:
                self._headers = await self._call_function()
            return self._headers != sent

    async def _call_function(self) -> dict[str, str]:
        assert not isinstance(self._token, str)
        token = self._token()
        return _bearer(await token if inspect.isawaitable(token) else token)


def _bearer(token: object) -> dict[str, str]:
    if not isinstance(token, str) or not token or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise LocalError("A bearer token is a text without blanks, line breaks or special letters")
    return {"authorization": f"Bearer {token}"}


def check_user_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The user's headers with lower-case names; raises for headers that the client sets itself."""
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise LocalError(f"{name!r} is no name of a header")
        if _OURS.fullmatch(name.lower()):
            raise LocalError(f"The header {name} is set by the client itself")
        if not _VALUE.fullmatch(value):
            raise LocalError(f"The value of the header {name} has a line break or another character it must not have")
        checked[name.lower()] = value.strip(" \t")
    return checked


def origin(url: str) -> tuple[str, str | None, int | None]:
    """The origin of a URL: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def media_type(answer: ClientResponse) -> str:
    """The media type of a response without parameters; empty if it has none."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def retry_after(answer: ClientResponse) -> float | None:
    """The seconds after which a request may be sent again, as the response says (RFC 9110, "Retry-After")."""
    value = answer.headers.get("retry-after")
    if value is None:
        return None
    if value.isdecimal():
        return float(value[:9])
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


async def read_all(answer: ClientResponse, limit: int, option: str | None = None) -> bytes:
    """The whole body; raises `InvalidAnswer` above the limit, with the name of the option that sets it."""
    body = await answer.chunk()
    if not body:
        return body
    more = await answer.chunk()
    if not more:
        return body
    pieces, size = [body, more], len(body) + len(more)
    while more and size <= limit:
        more = await answer.chunk()
        pieces.append(more)
        size += len(more)
    if size > limit:
        named = "" if option is None else f" ({option})"
        raise InvalidAnswer(f"The answer has more than {limit} bytes{named}")
    return b"".join(pieces)


async def read_error(answer: ClientResponse, url: str, id: Id | None, limit: int) -> bytes | Exception:
    """The content of an error response: the message that answers the request with this id, or an exception."""
    status = answer.status
    kind = media_type(answer)
    body = b""
    # If there is nothing to read, the status tells enough.
    with contextlib.suppress(ConnectionLost, InvalidAnswer):
        body = await (read_all(answer, limit) if kind == "application/json" else _beginning(answer))
    message = codec.decode(body) if kind == "application/json" and body else None
    if isinstance(message, Failure):
        if message.id == id and type(message.id) is type(id):
            return body
        if status not in _CREDENTIALS:
            problem = remote_error(message.code, message.message, message.data)
            if isinstance(problem, RemoteError):
                problem.status = status
            return problem
    words = _words("", message.message.encode()) if isinstance(message, Failure) else _words(kind, body)
    advice = _advice(status, answer.headers.get("retry-after"))
    return HttpStatus(_reason(url, status, words), status, url, retry_after(answer), advice=advice)


def unexpected_content(answer: ClientResponse, url: str) -> InvalidAnswer:
    """The error for a successful response that is neither JSON nor an event stream."""
    kind = media_type(answer)
    if not kind:
        return InvalidAnswer(f"{url} answered {answer.status} without a message")
    page = ": this looks like a web page, not like an MCP endpoint; check the path of the URL" if "html" in kind else ""
    return InvalidAnswer(f"{url} answered with {kind} instead of JSON or events{page}")


async def _beginning(answer: ClientResponse) -> bytes:
    body = b""
    while len(body) < MAX_WORDS and (more := await answer.chunk()):
        body += more
    return body


def _words(kind: str, body: bytes) -> str:
    text = body[:MAX_WORDS].decode(errors="replace")
    if "html" in kind:
        title = _TITLE.search(text)
        text = title[1] if title else ""
    text = " ".join(clean_text(text).split())
    return text if len(text) <= 200 else text[:200] + "..."


def _reason(url: str, status: int, words: str) -> str:
    from http import HTTPStatus

    try:
        name = f" {HTTPStatus(status).phrase}"
    except ValueError:
        name = ""
    text = f"{url} answered {status}{name}"
    if words and words != name.strip():
        text += f": {words}"
    return text


def _advice(status: int, retry_after: str | None) -> str:
    check = _CHECK.get(status)
    if check is None and 300 <= status < 400:
        check = "it redirects, which only 307 and 308 may"
    if retry_after is not None and retry_after.isdigit():
        check = f"{check or 'it has too much to do'}, try again in {retry_after[:9]} s"
    return check or ""
