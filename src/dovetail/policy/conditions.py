"""Conditions on argument values: equals, one of, like, under a folder, outside of one.

A condition is about all values at a place in the arguments. A rule that allows needs certainty, a rule that asks or
denies only a possibility, so that what is unclear is always decided the stricter way:

| values at the place                    | a rule that allows (`all_hold`) | a rule that asks or denies (`any_holds`) |
|----------------------------------------|---------------------------------|------------------------------------------|
| all pass                               | matches                         | matches                                  |
| some pass                              | does not match                  | matches                                  |
| none passes                            | does not match                  | does not match                           |
| one passes in another form (see below) | does not match                  | matches                                  |
| one passes inside a list or an object  | does not match                  | matches                                  |
| nothing is there                       | does not match                  | matches only `Outside`                   |
| too many values to look at             | does not match                  | matches                                  |

Other forms of a path are: a `file:` URI, `~`, a variable, quotes or blanks around it, percent-encoding, compatibility
characters such as fullwidth letters (NFKC), and a NUL in it. Other texts have NFKC only.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import msgspec

from .globs import glob_matches


class Equals(msgspec.Struct, frozen=True, tag="equals"):
    """The value is this one, of the same JSON type: 1 is not true, and 1.0 is 1."""

    value: Any

    def holds(self, value: Any) -> bool:
        """True if a value passes."""
        return _same(value, self.value)

    def __str__(self) -> str:
        return f"is {_shown(self.value)}"


class OneOf(msgspec.Struct, frozen=True, tag="one_of"):
    """The value is one of these."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """True if a value passes."""
        return any(_same(value, known) for known in self.values)

    def __str__(self) -> str:
        return f"is one of {', '.join(map(_shown, self.values))}"


class Like(msgspec.Struct, frozen=True, tag="like"):
    """The value is a text that fits a pattern with `*` and `?`."""

    pattern: str

    def holds(self, value: Any) -> bool:
        """True if a value passes."""
        return isinstance(value, str) and glob_matches(self.pattern, value)

    def __str__(self) -> str:
        return f"is like {_shown(self.pattern)}"


class Under(msgspec.Struct, frozen=True, tag="under"):
    """The value is an absolute path, or a `file:` URI, of the folder itself or of something in it.

    Links and `..` are followed first, and then whole names are compared: `/home/me/project2` is not under
    `/home/me/project` (CVE-2025-53110), and a link out of the folder leads out of it (CVE-2025-53109). A relative path
    is under no folder, since only the server knows what it is relative to.
    """

    folder: str

    def holds(self, value: Any) -> bool:
        """True if a value passes."""
        path = _resolved(value)
        return path is not None and _contains(_folder(self.folder), path)

    def __str__(self) -> str:
        return f"is under {self.folder}"


class Outside(msgspec.Struct, frozen=True, tag="outside"):
    """The value is anything but a path under the folder: another path, a relative one, no path at all, or missing."""

    folder: str

    def holds(self, value: Any) -> bool:
        """True if a value passes."""
        return not Under(self.folder).holds(value)

    def __str__(self) -> str:
        return f"is not under {self.folder}"


Condition: TypeAlias = Equals | OneOf | Like | Under | Outside

ABSENT = object()
"""Stands for a value that an item of a `*` does not have."""
_MOST_FORMS = 50
"""Forms of a path that are looked at; one that is quoted, encoded and wrapped more often is taken for the worst."""
_MOST_CHARACTERS = 65_536
"""Characters of a path that are looked at: no system opens a longer one."""
_MOST_INNER = 10_000
"""Values within a value that are looked at; one that has more is taken for the worst."""


def all_hold(condition: Condition, arguments: dict[str, Any], place: str) -> bool:
    """True if it is certain: there is something at the place, whichever way leads there, and everything passes."""
    values = values_at(arguments, place)
    return bool(values) and all(value is not ABSENT and condition.holds(value) for value in values)


def any_holds(condition: Condition, arguments: dict[str, Any], place: str) -> bool:
    """True if something at the place passes, or may; what is missing is outside of every folder.

    A value within a list or an object counts too: what a server makes of `["/etc"]` is perhaps what it makes of `/etc`.
    """
    values = values_at(arguments, place)
    if isinstance(condition, Outside) and (not values or ABSENT in values):
        return True
    return any(_may_hold(condition, inner) for value in values if value is not ABSENT for inner in _inner(value))


def _may_hold(condition: Condition, value: Any) -> bool:
    """True if a value passes in one of the forms in which a server may read it."""
    if value is ABSENT or condition.holds(value):
        return True
    if not isinstance(value, str):
        return False
    if isinstance(condition, Under):
        return _may_be_under(condition, value)
    plain = unicodedata.normalize("NFKC", value)
    return plain != value and condition.holds(plain)


def _may_be_under(condition: Under, value: str) -> bool:
    """True if a value is under the folder in one of the forms that a server may read it in, or has too many forms."""
    forms, looked = [value.strip()[:_MOST_CHARACTERS]], 0
    seen = set(forms)
    while forms:
        text = forms.pop()
        looked += 1
        if looked > _MOST_FORMS:
            return True
        if os.path.isabs(text):
            if condition.holds(text):
                return True
        elif ".." in text.replace("\\", "/").split("/"):
            return True  # only the server knows what it is relative to; with `..` it leads everywhere
        fresh = {form for form in _other_forms(text) if form not in seen}
        seen |= fresh
        forms.extend(fresh)
    return False


def _other_forms(text: str) -> Iterator[str]:
    """The other forms in which programs may read a path; each of them may have further ones."""
    yield text.strip().strip("\"'`").strip()
    yield unicodedata.normalize("NFKC", text)
    if "%" in text:
        yield unquote(text)
    if "\0" in text:
        yield text.partition("\0")[0]  # the end of a text in C
        yield text.replace("\0", "")
    if text[:5].lower() == "file:":
        yield unquote(urlsplit(text).path) if _is_uri(text) else text[5:]
    if text.startswith("~"):
        yield os.path.expanduser(text)
    if "$" in text:
        yield os.path.expandvars(text)


def _is_uri(text: str) -> bool:
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def _inner(value: Any) -> Iterator[Any]:
    """A value and all that is within it; `ABSENT`, which passes everything, where there is too much."""
    waiting, looked = [value], 0
    while waiting:
        each = waiting.pop()
        looked += 1
        if looked > _MOST_INNER:
            yield ABSENT
            return
        yield each
        if isinstance(each, dict):
            waiting.extend(cast("dict[str, Any]", each).values())
        elif isinstance(each, list):
            waiting.extend(cast("list[Any]", each))


def values_at(arguments: dict[str, Any], place: str) -> list[Any]:
    """The values at a place, with `ABSENT` for each item of a `*` that has none there.

    `/a/b` is a JSON pointer (RFC 6901), `a.b` the same by names; `*` is every item. A place that leads nowhere gives
    nothing. An argument that is itself called `a.b` is looked at as well, so that neither of the two hides the other.
    """
    if place.startswith("/"):
        return _follow(arguments, [step.replace("~1", "/").replace("~0", "~") for step in place[1:].split("/")])
    steps = place.split(".")
    if len(steps) == 1:
        return _follow(arguments, steps)
    whole = [arguments[place]] if place in arguments else []
    parts = _follow(arguments, steps)
    return [*whole, *parts] if not whole or steps[0] in arguments else whole


def _follow(arguments: dict[str, Any], steps: list[str]) -> list[Any]:
    values: list[Any] = [arguments]
    spread = False
    for step in steps:
        spread = spread or step == "*"
        values = [inner for value in values for inner in _within(value, step, spread)]
    return values


def _within(value: Any, step: str, spread: bool) -> list[Any]:
    inner: list[Any] = []
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        inner = list(members.values()) if step == "*" else [members[step]] if step in members else []
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        if step == "*":
            inner = items
        elif step.isdecimal() and len(step) < 10 and int(step) < len(items):
            inner = [items[int(step)]]
    return inner if inner or not spread or step == "*" else [ABSENT]


def _same(value: Any, known: Any) -> bool:
    if isinstance(value, bool) or isinstance(known, bool):
        return value is known
    if isinstance(value, dict) and isinstance(known, dict):
        these, those = cast("dict[str, Any]", value), cast("dict[str, Any]", known)
        return these.keys() == those.keys() and all(_same(these[name], those[name]) for name in these)
    if isinstance(value, list) and isinstance(known, list):
        left, right = cast("list[Any]", value), cast("list[Any]", known)
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(value, (int, float, str, NoneType)) and value == known


def _resolved(value: Any) -> Path | None:
    """The resolved path; None for what is no absolute path."""
    if not isinstance(value, str) or "\0" in value:
        return None
    text = _path_of(value) if value[:5].lower() == "file:" else value
    if text is None or not os.path.isabs(text):
        return None
    try:
        return Path(os.path.realpath(text))
    except (OSError, ValueError):
        return None


def _contains(folder: Path, path: Path) -> bool:
    """By names, and where these differ by what is on the disk: not every file system tells capital letters apart."""
    if path.is_relative_to(folder):
        return True
    try:
        wanted = folder.stat()
    except (OSError, ValueError):
        return False
    for above in (path, *path.parents):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samestat(above.stat(), wanted):
                return True
    return False


def _path_of(uri: str) -> str | None:
    if not _is_uri(uri):
        return None
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        return None
    path = unquote(parts.path)
    if "\0" in path:
        return None
    return path.lstrip("/") if os.name == "nt" else path


def _folder(text: str) -> Path:
    return Path(os.path.realpath(os.path.expanduser(text)))


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
