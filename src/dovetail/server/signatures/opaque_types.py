"""Types that msgspec cannot convert to by itself, wrapped so that it asks us."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec


class _Opaque(type):
    """The class of a stand-in for a type; whatever its reader returns counts as an instance."""

    read: Callable[[Any], Any]

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Alternative(msgspec.Struct, frozen=True):
    """A member of a union: the type to convert to and, if it is an object, the names it knows."""

    wire: Any
    names: frozenset[str]


def opaque(hint: Any, read: Callable[[Any], Any]) -> Any:
    """A stand-in for a hint whose values `read` makes from JSON; it raises ValueError on a misfit."""
    return _Opaque(getattr(hint, "__name__", "Value"), (), {"read": staticmethod(read)})


def is_opaque(wire: Any) -> bool:
    """Whether a type is such a stand-in (msgspec takes them in containers, not in unions)."""
    return isinstance(wire, _Opaque)


def decode(kind: type, value: Any) -> Any:
    """The `dec_hook` for msgspec that knows the stand-ins."""
    return cast("_Opaque", kind).read(value)


def choice(alternatives: Sequence[Alternative], expected: str) -> Any:
    """A union that msgspec calls ambiguous: the first member that fits, knowing every key if one does."""

    def read(value: Any) -> Any:
        fits: list[Any] = []
        for alternative in alternatives:
            try:
                made = msgspec.convert(value, alternative.wire, str_keys=True, dec_hook=decode)
            except msgspec.ValidationError:
                continue
            # Fields that a class does not know are ignored, so {} or {"b": 1} may fit the wrong one.
            if not isinstance(value, dict) or cast("dict[str, Any]", value).keys() <= alternative.names:
                return made
            fits.append(made)
        if not fits:
            raise ValueError(f"Expected {expected}")
        return fits[0]

    return opaque(None, read)
