"""What is wrong with a request to the authorization server, in the words of OAuth."""

from __future__ import annotations

from urllib.parse import parse_qsl

MAX_FIELDS = 50


class Problem(Exception):
    """A request is refused (RFC 6749, sections 4.1.2.1 and 5.2)."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status


class SentBack(Problem):
    """The same, to be told to the client by way of the browser: it is known where that may be sent."""

    def __init__(self, error: str, description: str, redirect_uri: str, state: str | None) -> None:
        super().__init__(error, description)
        self.redirect_uri = redirect_uri
        self.state = state


def read_fields(text: str) -> dict[str, str]:
    """The fields of a query or a form; one that comes twice is refused (RFC 6749, section 3.1)."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise Problem("invalid_request", "The request cannot be read, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Problem("invalid_request", "The request says something twice")
    return {name: value for name, value in fields.items() if value}


def needed(fields: dict[str, str], name: str) -> str:
    """A field that must be there."""
    if name not in fields:
        raise Problem("invalid_request", f"The request has no {name}")
    return fields[name]
