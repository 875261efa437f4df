"""URI templates: parsed once, expanded by RFC 6570 (levels 1 to 4), matched in time linear in the URI.

RFC 6570 defines expansion only. For matching, these rules apply, which are on the safe side:

- `{var}` is within one path segment: never empty, never across `/`, `?` or `#`, and its decoded value has no
  slash or backslash, so that `%2F` cannot add one.
- `{var*}` and `{+var}` take the rest of the path, slashes included, `{/var*}` the same after its slash: as
  one string, not empty. After a slash the value may not begin with another: it would be an absolute path
  (only `file://{+path}` is meant to hold one).
- No value has a `.` or `..` segment after decoding, contains NUL, or is broken percent-encoding or UTF-8.
- `{?a,b}`, `{&a,b}` and `{;a,b}` match their names in any order and may leave some out; unknown or repeated
  names do not match, unless a name is exploded (`{?tag*}`): then its value is a list.
- An expression with a prefix (`/ . ; ? & #`) may be missing altogether; its variables are then absent.
- Where a URI can be divided in several ways the earlier variable takes as much as it can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, unquote

from dovetail.types.errors import LocalError
from dovetail.uri_template.syntax import Expression, Variable, parse

Value = str | int | float | bool | Sequence[str] | Mapping[str, str] | None
Matched = dict[str, str | list[str]]

MAX_URI = 8192

_UNRESERVED = "-._~"
_RESERVED = _UNRESERVED + ":/?#[]@!$&'()*+,;="


class TemplateError(LocalError, ValueError):
    """A URI template that is not valid; the message says where."""


class UriTemplate:
    """A URI template of RFC 6570."""

    __slots__ = ("_head", "_parts", "_pattern", "template", "variables")

    def __init__(self, template: str) -> None:
        self.template = template
        try:
            parts = parse(template)
        except ValueError as error:
            raise TemplateError(f"the URI template {template!r} is not valid: {error}") from error
        coded = [_encode_literal(part) if isinstance(part, str) else part for part in parts]
        self._parts: list[str | Expression] = coded
        self._head = coded[0] if coded and isinstance(coded[0], str) else ""
        self._pattern = _pattern(coded)
        names = [variable.name for part in parts if not isinstance(part, str) for variable in part.variables]
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(names))

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def expand(self, values: Mapping[str, Value]) -> str:
        """The URI for these values; variables that are None or missing are left out."""
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> Matched | None:
        """The percent-decoded values of the variables in a URI, or None if it does not match."""
        if len(uri) > MAX_URI or not uri.startswith(self._head):
            return None
        divided = _divide(self._parts, uri) if self._pattern is None else _divide_by_pattern(self._pattern, uri)
        if divided is None:
            return None
        matched: Matched = {}
        cut: set[str] = set()
        before = ""
        for part, raw in zip(self._parts, divided, strict=True):
            if not isinstance(part, str) and raw:
                values = _READERS[part.operator](part, raw, before)
                if values is None or not _merge(part, matched, cut, values):
                    return None
            before = raw or before
        return matched


def _pattern(parts: list[str | Expression]) -> re.Pattern[str] | None:
    """A regular expression for a template whose variables all end where the next part begins; None for any other.

    Its quantifiers are possessive, so that it cannot backtrack.
    """
    text = ""
    following: set[str] = set()
    for part in reversed(parts):
        if isinstance(part, str):
            following = {part[0]}
            text = f"({re.escape(part)}){text}"
            continue
        if not following <= set(part.stops):
            return None
        run = f"[^{re.escape(part.stops)}]++" if part.stops else ".++"
        text = f"((?:{re.escape(part.prefix)}{run})?+){text}" if part.prefix else f"({run}){text}"
        following = {*following, part.prefix} if part.prefix else {""}
    return re.compile(text, re.DOTALL)


def _divide_by_pattern(pattern: re.Pattern[str], uri: str) -> tuple[str, ...] | None:
    whole = pattern.fullmatch(uri)
    return None if whole is None else whole.groups()


def _divide(parts: list[str | Expression], uri: str) -> list[str] | None:
    """Divide a URI into the pieces that the parts match.

    `ends[j][i]` is the furthest end of part j starting at i from which the rest still fits, or -1. It is
    filled from the back, each cell from its neighbours, so the time is parts x characters whatever they hold.
    """
    size = len(uri)
    fits = bytearray(size + 1)
    fits[size] = 1
    ends: list[list[int]] = []
    for part in reversed(parts):
        reach = _literal_ends(part, uri, fits) if isinstance(part, str) else _expression_ends(part, uri, fits)
        ends.append(reach)
        fits = bytearray(end >= 0 for end in reach)
    ends.reverse()
    at = 0
    divided: list[str] = []
    for reach in ends:
        end = reach[at]
        if end < 0:
            return None
        divided.append(uri[at:end])
        at = end
    return divided if at == size else None


def _literal_ends(part: str, uri: str, fits: bytearray) -> list[int]:
    ends = [-1] * (len(uri) + 1)
    at = uri.find(part)
    while at >= 0:
        if fits[at + len(part)]:
            ends[at] = at + len(part)
        at = uri.find(part, at + 1)
    return ends


def _expression_ends(part: Expression, uri: str, fits: bytearray) -> list[int]:
    size = len(uri)
    runs = [-1] * (size + 1)
    stops = part.stops
    for at in range(size - 1, -1, -1):
        if uri[at] not in stops:
            further = runs[at + 1]
            runs[at] = further if further >= 0 else (at + 1 if fits[at + 1] else -1)
    if not part.prefix:
        return runs
    ends = [at if fits[at] else -1 for at in range(size + 1)]
    for at in range(size):
        if uri[at] == part.prefix and runs[at + 1] >= 0:
            ends[at] = runs[at + 1]
    return ends


def _merge(part: Expression, matched: Matched, cut: set[str], values: Matched) -> bool:
    """Merge values; a variable that occurs twice must have one value, of which `{var:3}` is the beginning."""
    short = {variable.name for variable in part.variables if variable.length}
    for name, value in values.items():
        known = matched.get(name, value)
        longer, shorter = (known, value) if name in short else (value, known)
        if name in short or name in cut:
            if not isinstance(longer, str) or not isinstance(shorter, str) or not longer.startswith(shorter):
                return False
        elif known != value:
            return False
        if name not in matched and name in short:
            cut.add(name)
        elif name not in short:
            cut.discard(name)
        matched[name] = longer
    return True


def _decoded(raw: str) -> str | None:
    """Percent-decode; None for broken encoding, and for a value with NUL or with `.` and `..` segments."""
    if "%" in raw:
        for at, char in enumerate(raw):
            if char == "%" and not _is_hex(raw[at + 1 : at + 3]):
                return None
        try:
            raw = unquote(raw, errors="strict")
        except UnicodeDecodeError:
            return None
    if "\0" in raw:
        return None
    if "." in raw and any(piece in (".", "..") for piece in raw.replace("\\", "/").split("/")):
        return None
    return raw


def _is_hex(pair: str) -> bool:
    return len(pair) == 2 and all(char in "0123456789abcdefABCDEF" for char in pair)


def _read_value(variable: Variable, raw: str, before: str, allows_slashes: bool) -> str | None:
    value = _decoded(raw)
    if value is None or (variable.length and len(value) > variable.length):
        return None
    if allows_slashes:
        rooted = before.endswith("/") and before != "file://"
        return None if rooted and value.startswith(("/", "\\")) else value
    return None if "/" in value or "\\" in value else value


def _read_list(part: Expression, raw: str, before: str) -> Matched | None:
    """Read values in order, one for each variable; an exploded last variable takes the rest."""
    raw = raw[len(part.prefix) :]
    names = part.variables
    allows_slashes = part.allows_slashes
    separator = part.separator
    pieces = [raw] if len(names) == 1 else raw.split(separator, len(names) - 1)
    if len(pieces) != len(names) and not part.prefix:
        return None
    values: Matched = {}
    for variable, piece in zip(names, pieces, strict=False):
        value = _read_value(variable, piece, part.prefix or before, allows_slashes or variable.exploded)
        if value is None:
            return None
        values[variable.name] = value
    return values


def _read_pairs(part: Expression, raw: str, before: str) -> Matched | None:
    """Read `name=value` pairs in any order."""
    known = {variable.name: variable for variable in part.variables}
    values: Matched = {}
    for pair in raw[1:].split(part.separator):
        name, _, text = pair.partition("=")
        variable = known.get(name)
        value = _decoded(text.replace("+", " ") if part.operator in "?&" else text)
        if variable is None or value is None or (variable.length and len(value) > variable.length):
            return None
        held = values.get(name)
        if variable.exploded:
            values[name] = [*held, value] if isinstance(held, list) else [value]
        elif held is not None:
            return None
        else:
            values[name] = value
    return values


_READERS: dict[str, Callable[[Expression, str, str], Matched | None]] = {
    **dict.fromkeys(["", "+", "#", ".", "/"], _read_list),
    **dict.fromkeys([";", "?", "&"], _read_pairs),
}


def _encode_literal(text: str) -> str:
    return quote(text, safe=_RESERVED + "%")


def _expand(part: Expression, values: Mapping[str, Value]) -> str:
    safe = _RESERVED if part.operator in ("+", "#") else _UNRESERVED
    pieces: list[str] = []
    for variable in part.variables:
        pieces += _expand_one(part, variable, values.get(variable.name), safe)
    return part.prefix + part.separator.join(pieces) if pieces else ""


def _expand_one(part: Expression, variable: Variable, value: Value, safe: str) -> list[str]:
    if value is None:
        return []
    name = variable.name
    if isinstance(value, Mapping):
        pairs = [(_encode(key, safe), _encode(item, safe)) for key, item in value.items()]
        if variable.exploded:
            return [f"{key}={item}" for key, item in pairs]
        joined = ",".join(f"{key},{item}" for key, item in pairs)
        return [_named(part, name, joined)] if pairs else []
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_encode(item, safe) for item in value]
        if variable.exploded:
            return [_named(part, name, item) for item in items]
        return [_named(part, name, ",".join(items))] if items else []
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return [_named(part, name, _encode(text[: variable.length] if variable.length else text, safe))]


def _named(part: Expression, name: str, text: str) -> str:
    if part.operator not in (";", "?", "&"):
        return text
    return name if not text and part.operator == ";" else f"{name}={text}"


def _encode(text: str, safe: str) -> str:
    if safe is _UNRESERVED:
        return quote(str(text), safe=safe)
    # Reserved expansion keeps existing percent-encoding.
    pieces = str(text).split("%")
    coded = quote(pieces[0], safe=safe)
    for piece in pieces[1:]:
        coded += ("%" if _is_hex(piece[:2]) else "%25") + quote(piece, safe=safe)
    return coded
