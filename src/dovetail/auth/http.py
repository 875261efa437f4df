"""HTTP as values: a flow yields requests, is sent their responses, and returns what it found out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from .errors import AuthorizationFailed

MAX_BODY = 256 * 1024
"""How much of a response a flow needs; whoever sends its requests reads no more."""

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
    """A request to send, to its URL and nowhere else.

    A GET may follow redirects within its origin; everything else follows none.
    """

    method: str
    url: str
    headers: dict[str, str] = {}
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Request({self.method!r}, {self.url!r})"  # headers and body hold secrets


class Response(msgspec.Struct, frozen=True):
    """The response to a request; names of headers are in lower case."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""

    def __repr__(self) -> str:
        return f"Response({self.status})"


Flow: TypeAlias = Generator[Request, Response, T]
"""What a flow is: the driver sends the response of each request, or throws why there is none."""

Random: TypeAlias = Callable[[int], bytes]
"""Gives so many bytes that nobody can guess, as `os.urandom` does."""


def drive(flow: Flow[T], send: Callable[[Request], Response]) -> T:
    """Run a flow to its end."""
    try:
        request = next(flow)
        while True:
            try:
                response = send(request)
            except Exception as problem:
                request = flow.throw(problem)
            else:
                request = flow.send(response)
    except StopIteration as end:
        return end.value


def get(url: str, headers: Mapping[str, str] | None = None) -> Request:
    """A request for a JSON document."""
    return Request("GET", url, {"accept": "application/json", **(headers or {})})


def post_form(url: str, fields: Iterable[tuple[str, str]], headers: Mapping[str, str] | None = None) -> Request:
    """A form, as a token endpoint takes it (RFC 6749, appendix B)."""
    given = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", **(headers or {})}
    return Request("POST", url, given, urlencode(list(fields)).encode())


def post_json(url: str, value: Any, headers: Mapping[str, str] | None = None) -> Request:
    """A JSON document, as a registration endpoint takes it."""
    given = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
    return Request("POST", url, given, msgspec.json.encode(value))


class Document:
    """A JSON object of a peer's, whose fields are what they should be or are refused.

    A field that is null counts as absent.
    """

    def __init__(self, fields: dict[str, Any], what: str) -> None:
        self.fields = fields
        self.what = what

    @classmethod
    def read(cls, body: bytes, what: str) -> Document:
        """The object in a body; `what` names it in errors."""
        if len(body) > MAX_BODY:
            raise AuthorizationFailed(f"{what} has more than {MAX_BODY} bytes")
        try:
            return cls(msgspec.json.decode(body, type=dict[str, Any]), what)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise AuthorizationFailed(f"{what} is not a JSON object") from None

    def text(self, name: str, most: int = 2048) -> str | None:
        """A field that is a text."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value or len(value) > most:
            raise AuthorizationFailed(f"{self.what} has a {name} that is not a text of at most {most} characters")
        return value

    def needed(self, name: str, most: int = 2048) -> str:
        """A text that must be there."""
        value = self.text(name, most)
        if value is None:
            raise AuthorizationFailed(f"{self.what} has no {name}")
        return value

    def texts(self, name: str, most: int = 256) -> tuple[str, ...] | None:
        """A field that is a list of texts; None where there is none, which differs from an empty one."""
        value = self.fields.get(name)
        if value is None:
            return None
        try:
            texts = msgspec.convert(value, list[str])
        except msgspec.ValidationError:
            raise AuthorizationFailed(f"{self.what} has {name} that are not a list of texts") from None
        if len(texts) > most or any(len(text) > 2048 for text in texts):
            raise AuthorizationFailed(f"{self.what} has too many {name}, or too long ones")
        return tuple(texts)

    def flag(self, name: str) -> bool:
        """A field that is true, or not."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise AuthorizationFailed(f"{self.what} has a {name} that is neither true nor false")
        return value is True
