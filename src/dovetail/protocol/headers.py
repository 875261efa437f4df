"""HTTP headers that mirror the body of a request: written by clients, compared with the body by servers.

Streamable HTTP, "Request Metadata". Handshake revisions do not require them, but a draft between the eras did:
on these revisions they are sent as well, and checked if they are present.
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

VERSION_KEY = b"mcp-protocol-version"
METHOD_KEY = b"mcp-method"
NAME_KEY = b"mcp-name"
SESSION_KEY = b"mcp-session-id"
LAST_EVENT_KEY = b"last-event-id"
"""Header names as a server receives them: lower case, in bytes."""

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
"""The member of the params that `Mcp-Name` mirrors, by method; for tasks as in SEP-2663, "Routing Headers"."""

NAME_REQUIRED = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods for which a server requires `Mcp-Name`; for those of the tasks extension only clients are obliged."""

SAFE_INTEGER = 2**53 - 1
"""The largest absolute value of an integer that may be mirrored."""

_OPEN, _CLOSE = "=?base64?", "?="
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_LEGAL = re.compile(r"[\x20-\x7e\t]*")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_MAX_NUMBER_LENGTH = 400
_SCALARS = (str, int, float)


def encode_value(text: str) -> str:
    """Encode a text as a header value, in base64 if it is not valid as it is ("Value Encoding")."""
    if _PLAIN.fullmatch(text) and not (text.startswith(_OPEN) and text.endswith(_CLOSE)):
        return text
    return f"{_OPEN}{binascii.b2a_base64(text.encode(), newline=False).decode()}{_CLOSE}"


def decode_value(header: str) -> str:
    """Decode a header value; raises ValueError for characters that no header may have, and for bad base64."""
    if not _LEGAL.fullmatch(header):
        raise ValueError("it contains characters that no header value may have")
    # Prefix and suffix must not overlap, as they do in "=?base64?=".
    if not (header.startswith(_OPEN) and header.endswith(_CLOSE) and len(header) >= len(_OPEN) + len(_CLOSE)):
        return header
    body = header[len(_OPEN) : -len(_CLOSE)]
    try:
        raw = binascii.a2b_base64(body, strict_mode=True)
        text = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as problem:
        raise ValueError("its base64 cannot be decoded to UTF-8 text") from problem
    if binascii.b2a_base64(raw, newline=False).decode() != body:
        # Two encodings of one value would let two parsers disagree.
        raise ValueError("its base64 is not in canonical form")
    return text


def standard_headers(
    method: str,
    params: Mapping[str, Any],
    revision_name: str | None,
    paths: Mapping[tuple[str, ...], str] | None = None,
) -> dict[str, str]:
    """The headers that a client sends with a request or notification.

    `revision_name` is None before the revision is negotiated; `paths` are the mirrored arguments of the called tool.
    Raises ValueError if an argument cannot be mirrored. A method that is not a valid header value is left out, since
    base64 is for names and parameters only.
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
            # An enum member that is a string is sent as its value, as it is in the body.
            headers[NAME] = encode_value(name if type(name) is str else str.__str__(name))
    if paths and method == "tools/call":
        arguments = params.get("arguments")
        for path, header in paths.items():
            text = _header_text(path, _value_at(arguments, path))
            if text is not None:
                headers[PARAM_PREFIX + header] = encode_value(text)
    return headers


def _value_at(arguments: object, path: tuple[str, ...]) -> object:
    """The value at the exact path of property names, or None."""
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, object]", arguments).get(key)
    return arguments


def _header_text(path: tuple[str, ...], value: object) -> str | None:
    """A value as header text; None if there is none, or if it has no header form, which the server will report."""
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
    """The reason why the headers do not match the body, or None ("Server Validation").

    Header names are in lower case, values without surrounding spaces. `paths` is None for an unknown tool, whose
    `Mcp-Param-*` headers are ignored. A value in the body that has no header form needs no header: it will fail as
    an argument.
    """
    sent = headers.get(METHOD_KEY)
    if sent is None:
        if required:
            return f"The {METHOD} header is missing"
    elif sent != method.encode():
        return f"The {METHOD} header has {_preview(sent)}, the body {method!r}"
    source = NAME_SOURCES.get(method)
    if source is not None:
        sent = headers.get(NAME_KEY)
        if sent is None:
            if required and method in NAME_REQUIRED:
                return f"The {NAME} header is missing"
        else:
            problem = _differs(NAME, sent, params.get(source))
            if problem is not None:
                return problem
    return _check_parameters(headers, params, paths, required) if paths else None


def _check_parameters(
    headers: Mapping[bytes, bytes], params: Mapping[str, Any], paths: Mapping[tuple[str, ...], str], required: bool
) -> str | None:
    arguments = params.get("arguments")
    for path, name in paths.items():
        value = _value_at(arguments, path)
        sent = headers.get(_parameter_key(name))
        if sent is not None:
            problem = _differs(PARAM_PREFIX + name, sent, value)
            if problem is not None:
                return problem
        elif required and isinstance(value, _SCALARS):
            return f"The {PARAM_PREFIX}{name} header is missing, though the body has a value for it"
    return None


@lru_cache(maxsize=4096)
def _parameter_key(name: str) -> bytes:
    return (PARAM_PREFIX + name).lower().encode()


def _differs(header: str, sent: bytes, value: object) -> str | None:
    """The reason why a header does not match the value in the body, or None."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and sent == value.encode()
        and not sent.startswith(b"=?")
    ):
        return None
    if value is None:
        return f"The {header} header is present, but the body has no value for it"
    try:
        text = decode_value(sent.decode("latin-1"))
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
    return None if same else f"The {header} header has {_preview(sent)}, the body something else"


def _same_number(text: str, value: float) -> bool:
    if len(text) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return False
    if isinstance(value, float) and not _is_safe_integer(value):
        return float(text) == value
    from decimal import Decimal

    # As floats, 4503599627370497.2 and 4503599627370497 would be equal.
    return Decimal(text) == int(value)


def _preview(sent: bytes) -> str:
    text = sent.decode("latin-1")
    return repr(text if len(text) <= 100 else text[:100] + "...")
