"""Finding characters that a model reads and a user does not see."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_MARKS = re.compile("[\u200e\u200f\u061c]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]+"
)
_JOINERS = re.compile("[\u200c\u200d]")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
_GAP = re.compile(r"[^\S\n]{200}|(?:[^\S\n]*\n){40}")

_SOME = 80
"""Characters of a hidden text that are shown."""

_HIDDEN = re.compile(
    "|".join(found.pattern for found in (_BIDI, _MARKS, _UNSEEN, _JOINERS, _CONTROLS, _TAGS, _SELECTORS))
)


def find_hidden(text: str) -> Iterator[str]:
    """Find hidden characters, each kind in words; those that some scripts and emoji need are not counted."""
    if not text.isascii():
        yield from _tags(text)
        yield from _selectors(text)
        if match := _UNSEEN.search(text):
            yield f"has invisible characters ({_named(match[0])})"
        elif any(_joins_nothing(text, match.start()) for match in _JOINERS.finditer(text)):
            yield "has invisible joiners between characters that are not joined"
        if match := _BIDI.search(text):
            yield f"has characters that turn the direction of the text around ({_named(match[0])})"
        elif (match := _MARKS.search(text)) and not _right_to_left(text):
            yield f"has invisible characters ({_named(match[0])})"
    if match := _CONTROLS.search(text):
        yield f"has control characters, which a terminal obeys (U+{ord(match[0]):04X})"
    if (match := _GAP.search(text)) and text[match.end() :].strip():
        yield "has a long gap, behind which a user may not look"


def strip_hidden(text: str) -> str:
    """The text as a user sees it."""
    return _HIDDEN.sub("", text)


def show_hidden(text: str) -> str:
    """The text with every character that a user does not see written out by its number; line ends stay."""
    return _HIDDEN.sub(lambda match: "".join(map(_escaped, match[0])), text)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _tags(text: str) -> Iterator[str]:
    tags = "".join(_TAGS.findall(_FLAG.sub("", text)))
    if tags:
        letters = "".join(chr(ord(char) - 0xE0000) for char in tags if 0x20 <= ord(char) - 0xE0000 < 0x7F)
        more = "…" if len(letters) > _SOME else ""
        yield f'hides the text "{letters[:_SOME]}{more}" in tag characters'


def _selectors(text: str) -> Iterator[str]:
    """A variation selector chooses among shapes of the character before it; a row of them can only carry data."""
    count = 0
    for match in _SELECTORS.finditer(text):
        before = text[match.start() - 1] if match.start() else ""
        if len(match[0]) > 1 or not _has_shapes(before, match[0]):
            count += len(match[0])
    if count:
        yield f"has {count} variation selectors that choose nothing, and can carry a hidden text"


def _has_shapes(before: str, selector: str) -> bool:
    if not before or before.isspace():
        return False
    if ord(selector) >= 0xE0100:
        return unicodedata.name(before, "").startswith(("CJK ", "KANGXI "))
    return not before.isascii() or before in "0123456789#*"


def _joins_nothing(text: str, at: int) -> bool:
    """Joiners belong between emoji, or letters of scripts that are written joined; never beside ASCII or Latin."""
    around = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    return any(not char or char.isascii() or unicodedata.name(char, "").startswith("LATIN ") for char in around)


def _right_to_left(text: str) -> bool:
    return any(char.isalpha() and unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def _named(text: str) -> str:
    return unicodedata.name(text[0], f"U+{ord(text[0]):04X}").lower()
