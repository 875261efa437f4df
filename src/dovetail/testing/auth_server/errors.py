"""OAuth errors, and parsing of form fields."""

from __future__ import annotations

from urllib.parse import parse_qsl

MAX_FIELDS = 50


class RequestError(Exception):
    """An error response (RFC 6749, sections 4.1.2.1 and 5.2)."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status


class RedirectedError(RequestError):
    """An error that is redirected to the client: client and redirect URI are valid."""

    def __init__(self, error: str, description: str, redirect_uri: str, state: str | None) -> None:
        super().__init__(error, description)
        self.redirect_uri = redirect_uri
        self.state = state


def read_fields(text: str) -> dict[str, str]:
    """Parse the fields of a query or a form; repeated fields are an error (RFC 6749, section 3.1)."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise RequestError("invalid_request", "The request cannot be read, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RequestError("invalid_request", "The request repeats a field")
    return {name: value for name, value in fields.items() if value}


def required_field(fields: dict[str, str], name: str) -> str:
    """A required field."""
    if name not in fields:
        raise RequestError("invalid_request", f"The request has no {name}")
    return fields[name]
