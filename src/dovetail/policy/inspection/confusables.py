"""Names that a user takes for another one."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator

from .invisible_chars import strip_hidden

_LETTERS = {
    **dict(zip("аеорсухѕіјԁԛԝһкмтвнѵгьъ", "aeopcyxsijdqwhkmtbhvrbb", strict=True)),
    **dict(zip("АВЕКМНОРСТУХЅІЈԌԚԜҮЗ", "ABEKMHOPCTYXSIJGQWY3", strict=True)),
    **dict(zip("ονικρτυχαεγηωϲϳ", "ovikptuxaeynwcj", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹ", "ABEZHIKMNOPTYXC", strict=True)),
    **dict(zip("օսհոցԁղ", "ouhngdn", strict=True)),
    **dict(zip("ıȷɑɡɩɪʀʏƽǃ", "ijagilry5!", strict=True)),
    **dict(zip("ᴀʙᴄᴅᴇɢʜᴊᴋʟᴍɴᴏᴘᴛᴜᴠᴡᴢ", "abcdeghjklmnoptuvwz", strict=True)),
    **dict(zip("ØøĐđŁłĦħŦŧ", "OoDdLlHhTt", strict=True)),
    **dict(zip("‐‑‒–—−﹘＿⁃", "-------_-", strict=True)),
}
"""Letters of other alphabets that are drawn like ASCII ones; a choice from Unicode's list of confusables (UTS 39)."""

_DRAWN_ALIKE = str.maketrans({"I": "l", "1": "l", "|": "l", "0": "o", "5": "s"})
_TABLE = str.maketrans(_LETTERS)


def as_ascii(text: str) -> str:
    """The text with every letter that looks like an ASCII one replaced by that; marks on letters fall away."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", strip_hidden(text).translate(_TABLE))
    return "".join(char for char in plain if not unicodedata.combining(char)).translate(_TABLE)


def skeleton(name: str) -> str:
    """The skeleton of a name: names with the same skeleton look alike (UTS 39)."""
    return as_ascii(name).translate(_DRAWN_ALIKE).lower().replace("rn", "m").replace("vv", "w")


def find_look_alike(name: str, others: Collection[str]) -> str | None:
    """Another name that this one can be taken for; one that differs in nothing but capital letters is none."""
    mine, folded = skeleton(name), name.casefold()
    return next((other for other in others if skeleton(other) == mine and other.casefold() != folded), None)


def mixed_alphabets(name: str) -> Iterator[str]:
    """Find letters of several alphabets in one word, of which some look alike."""
    disguised = sorted({char for char in name if char in _LETTERS and char.isalpha() and not _is_latin(char)})
    if disguised and any(map(_is_latin, name)):
        shown = ", ".join(f"{char} is {unicodedata.name(char, '?').lower()}" for char in disguised[:3])
        yield f"mixes alphabets ({shown}), so that it looks like {as_ascii(name)!r}"


def _is_latin(char: str) -> bool:
    return unicodedata.name(char, "").startswith("LATIN ")
