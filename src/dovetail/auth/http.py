"""HTTP requests and responses as values: a flow yields requests, receives their responses, and returns a result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from .errors import AuthorizationFailed

MAX_BODY = 256 * 1024
"""The most bytes of a response body that a flow accepts; the code that sends its requests reads no more."""

T = TypeVar("T")


class OAuthRequest(msgspec.Struct, frozen=True):
    """A request to send, to its URL and nowhere else.

    A GET may follow redirects within its origin; everything else follows none.
    """

    method: str
    url: str
    headers: dict[str, str] = {}
    body: bytes = b""

    def __repr__(self) -> str:
        return f"OAuthRequest({self.method!r}, {self.url!r})"  # headers and body hold secrets


class OAuthResponse(msgspec.Struct, frozen=True):
    """The response to a request; header names are in lower case."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""

    def __repr__(self) -> str:
        return f"OAuthResponse({self.status})"


Flow: TypeAlias = Generator[OAuthRequest, OAuthResponse, T]
"""A generator of requests: its driver sends the response to each of them, or throws the error instead."""

Random: TypeAlias = Callable[[int], bytes]
"""Returns the given number of cryptographically random bytes, as `os.urandom` does."""


def get(url: str, headers: Mapping[str, str] | None = None) -> OAuthRequest:
    """Build a GET request for a JSON document."""
    return OAuthRequest("GET", url, {"accept": "application/json", **(headers or {})})


def post_form(url: str, fields: Iterable[tuple[str, str]], headers: Mapping[str, str] | None = None) -> OAuthRequest:
    """Build a POST request with a form, as token endpoints accept it (RFC 6749, appendix B)."""
    given = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", **(headers or {})}
    return OAuthRequest("POST", url, given, urlencode(list(fields)).encode())


def post_json(url: str, value: Any, headers: Mapping[str, str] | None = None) -> OAuthRequest:
    """Build a POST request with a JSON document, as registration endpoints accept it."""
    given = {"accept": "application/json", "content-type": "application/json", **(headers or {})}
    return OAuthRequest("POST", url, given, msgspec.json.encode(value))


class Document:
    """A JSON object from a peer, with typed access: a field of another type raises `AuthorizationFailed`.

    A field that is null counts as absent.
    """

    def __init__(self, fields: dict[str, Any], what: str) -> None:
        self.fields = fields
        self.what = what

    @classmethod
    def read(cls, body: bytes, what: str) -> Document:
        """Parse a body; `what` names the document in errors."""
        if len(body) > MAX_BODY:
            raise AuthorizationFailed(f"{what} has more than {MAX_BODY} bytes")
        try:
            return cls(msgspec.json.decode(body, type=dict[str, Any]), what)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise AuthorizationFailed(f"{what} is not a JSON object") from None

    def text(self, name: str, most: int = 2048) -> str | None:
        """A string field, or None if it is absent."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value or len(value) > most:
            raise AuthorizationFailed(f"{self.what} has a {name} that is not a string of 1 to {most} characters")
        return value

    def needed(self, name: str, most: int = 2048) -> str:
        """A string field that is required."""
        value = self.text(name, most)
        if value is None:
            raise AuthorizationFailed(f"{self.what} has no {name}")
        return value

    def texts(self, name: str, most: int = 256) -> tuple[str, ...] | None:
        """A field that is a list of strings; None if it is absent, which differs from an empty list."""
        value = self.fields.get(name)
        if value is None:
            return None
        try:
            texts = msgspec.convert(value, list[str])
        except msgspec.ValidationError:
            raise AuthorizationFailed(f"{self.what} has {name} that is not a list of strings") from None
        if len(texts) > most or any(len(text) > 2048 for text in texts):
            raise AuthorizationFailed(f"{self.what} has too many {name}, or too long ones")
        return tuple(texts)

    def flag(self, name: str) -> bool:
        """A boolean field; False if it is absent."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise AuthorizationFailed(f"{self.what} has a {name} that is neither true nor false")
        return value is True
