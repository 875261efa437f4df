"""The headers that repeat what the body says: how a client writes them, how a server compares them.

Streamable HTTP, "Request Metadata". Handshake revisions do not ask for them, but a draft between the eras did,
so there too they are sent, and checked where they are present.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

PROTOCOL_VERSION = "MCP-Protocol-Version"
METHOD = "Mcp-Method"
NAME = "Mcp-Name"
PARAM_PREFIX = "Mcp-Param-"
SESSION_ID = "Mcp-Session-Id"
LAST_EVENT_ID = "Last-Event-ID"

VERSION_KEY = b"mcp-protocol-version"
METHOD_KEY = b"mcp-method"
NAME_KEY = b"mcp-name"
SESSION_KEY = b"mcp-session-id"
LAST_EVENT_KEY = b"last-event-id"
"""The same names as a server finds them: lower case, in bytes."""

DRAFT_HEADER_MISMATCH = -32001
"""The code of a mismatch on handshake revisions, from the draft that had sessions and these headers (SEP-2243)."""

NAME_SOURCES: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Which member of the params `Mcp-Name` repeats; tasks as SEP-2663, "Routing Headers", has them."""

NAME_REQUIRED = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Where a server insists on `Mcp-Name`: of clients of the tasks extension it is asked, but not of servers."""

SAFE_INTEGER = 2**53 - 1
"""The largest integer that may be mirrored, on either side of zero."""

_OPEN, _CLOSE = "=?base64?", "?="
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_LEGAL = re.compile(r"[\x20-\x7e\t]*")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_NUMBER = 400
_SCALARS = (str, int, float)


def encode_value(text: str) -> str:
    """The text as a header value, in base64 where it could not travel as it is ("Value Encoding")."""
    if _PLAIN.fullmatch(text) and not (text.startswith(_OPEN) and text.endswith(_CLOSE)):
        return text
    return f"{_OPEN}{binascii.b2a_base64(text.encode(), newline=False).decode()}{_CLOSE}"


def decode_value(header: str) -> str:
    """The text that a header value stands for; ValueError if it holds what no header may, or bad base64."""
    if not _LEGAL.fullmatch(header):
        raise ValueError("it contains characters that no header value may have")
    # Both marks need room: "=?base64?=" opens and closes with the same character.
    if not (header.startswith(_OPEN) and header.endswith(_CLOSE) and len(header) >= len(_OPEN) + len(_CLOSE)):
        return header
    body = header[len(_OPEN) : -len(_CLOSE)]
    try:
        raw = binascii.a2b_base64(body, strict_mode=True)
        text = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as problem:
        raise ValueError("its base64 cannot be decoded to UTF-8 text") from problem
    if binascii.b2a_base64(raw, newline=False).decode() != body:
        # Two spellings of one value would let two readers disagree.
        raise ValueError("its base64 is not in canonical form")
    return text


def standard_headers(
    method: str,
    params: Mapping[str, Any],
    revision_name: str | None,
    paths: Mapping[tuple[str, ...], str] | None = None,
) -> dict[str, str]:
    """The headers that a client sends with a request or notification.

    `revision_name` is None while none is agreed on, `paths` are the mirrored arguments of the tool that is called.
    ValueError if an argument cannot be mirrored. A method that is no header value is left out, since base64 is for
    names and parameters only.
    """
    headers: dict[str, str] = {}
    if revision_name is not None:
        headers[PROTOCOL_VERSION] = revision_name
    if _PLAIN.fullmatch(method):
        headers[METHOD] = method
    source = NAME_SOURCES.get(method)
    if source is not None:
        name = params.get(source)
        if isinstance(name, str):
            # An enum member that is a string goes as its value, as it does in the body.
            headers[NAME] = encode_value(name if type(name) is str else str.__str__(name))
    if paths and method == "tools/call":
        arguments = params.get("arguments")
        for path, header in paths.items():
            text = _written(path, _at(arguments, path))
            if text is not None:
                headers[PARAM_PREFIX + header] = encode_value(text)
    return headers


def _at(arguments: object, path: tuple[str, ...]) -> object:
    """The value at the exact path of property names, or None."""
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, object]", arguments).get(key)
    return arguments


def _written(path: tuple[str, ...], value: object) -> str | None:
    """A value as header text; None where there is none, or where only the server can say what is wrong with it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if _is_safe_integer(value) else repr(value)
    if isinstance(value, int):
        if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
            raise ValueError(
                f"The argument {'.'.join(path)} is mirrored into a header and must lie within ±(2**53 - 1)"
            )
        return str(value)
    return None


def _is_safe_integer(value: float) -> bool:
    return value.is_integer() and -SAFE_INTEGER <= value <= SAFE_INTEGER


def check_headers(
    headers: Mapping[bytes, bytes],
    method: str,
    params: Mapping[str, Any],
    paths: Mapping[tuple[str, ...], str] | None,
    *,
    required: bool,
) -> str | None:
    """Why the headers do not fit the body, or None ("Server Validation").

    Header names are in lower case, values without blanks around them. `paths` is None for an unknown tool, whose
    `Mcp-Param-*` headers are then nobody's. A value in the body that has no header form needs none: it fails as an
    argument.
    """
    seen = headers.get(METHOD_KEY)
    if seen is None:
        if required:
            return f"The {METHOD} header is missing"
    elif seen != method.encode():
        return f"The {METHOD} header says {_told(seen)}, the body {method!r}"
    source = NAME_SOURCES.get(method)
    if source is not None:
        seen = headers.get(NAME_KEY)
        if seen is None:
            if required and method in NAME_REQUIRED:
                return f"The {NAME} header is missing"
        else:
            problem = _differs(NAME, seen, params.get(source))
            if problem is not None:
                return problem
    return _check_parameters(headers, params, paths, required) if paths else None


def _check_parameters(
    headers: Mapping[bytes, bytes], params: Mapping[str, Any], paths: Mapping[tuple[str, ...], str], required: bool
) -> str | None:
    arguments = params.get("arguments")
    for path, name in paths.items():
        value = _at(arguments, path)
        seen = headers.get(_parameter_key(name))
        if seen is not None:
            problem = _differs(PARAM_PREFIX + name, seen, value)
            if problem is not None:
                return problem
        elif required and isinstance(value, _SCALARS):
            return f"The {PARAM_PREFIX}{name} header is missing, though the body has a value for it"
    return None


@lru_cache(maxsize=4096)
def _parameter_key(name: str) -> bytes:
    return (PARAM_PREFIX + name).lower().encode()


def _differs(header: str, seen: bytes, value: object) -> str | None:
    """Why the header does not say what the body says, or None."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and seen == value.encode()
        and not seen.startswith(b"=?")
    ):
        return None
    if value is None:
        return f"The {header} header is present, but the body has no value for it"
    try:
        text = decode_value(seen.decode("latin-1"))
    except ValueError as problem:
        return f"The {header} header is malformed: {problem}"
    if isinstance(value, str):
        same = text == value
    elif isinstance(value, bool):
        same = text == ("true" if value else "false")
    elif isinstance(value, int | float):
        if isinstance(value, int) and not -SAFE_INTEGER <= value <= SAFE_INTEGER:
            return f"The {header} header mirrors an integer beyond ±(2**53 - 1)"
        same = _same_number(text, value)
    else:
        same = False
    return None if same else f"The {header} header says {_told(seen)}, the body something else"


def _same_number(text: str, value: float) -> bool:
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return False
    if isinstance(value, float) and not _is_safe_integer(value):
        return float(text) == value
    from decimal import Decimal

    # As floats, 4503599627370497.2 and 4503599627370497 would be the same.
    return Decimal(text) == int(value)


def _told(seen: bytes) -> str:
    text = seen.decode("latin-1")
    return repr(text if len(text) <= 100 else text[:100] + "...")
