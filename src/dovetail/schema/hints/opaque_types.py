"""Stand-ins for types that msgspec cannot convert to, so that it calls our `dec_hook`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec


class _Opaque(type):
    """Metaclass of stand-ins; everything that its `read` returns counts as an instance."""

    read: Callable[[Any], Any]

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Alternative(msgspec.Struct, frozen=True):
    """A member of a union: the type to convert to and, if it is an object, the names of its fields."""

    wire: Any
    names: frozenset[str]


def opaque(hint: Any, read: Callable[[Any], Any]) -> Any:
    """A stand-in for a hint; `read` converts its values from JSON, and raises ValueError for invalid ones."""
    return _Opaque(getattr(hint, "__name__", "Value"), (), {"read": staticmethod(read)})


def is_opaque(wire: Any) -> bool:
    """True for a stand-in; msgspec accepts them in containers, not in unions."""
    return isinstance(wire, _Opaque)


def decode(kind: type, value: Any) -> Any:
    """The `dec_hook` of msgspec for stand-ins."""
    return cast("_Opaque", kind).read(value)


def opaque_union(alternatives: Sequence[Alternative], expected: str) -> Any:
    """A union that msgspec refuses as ambiguous: the first member that fits, preferably one that has every key."""

    def read(value: Any) -> Any:
        fits: list[Any] = []
        for alternative in alternatives:
            try:
                made = msgspec.convert(value, alternative.wire, str_keys=True, dec_hook=decode)
            except msgspec.ValidationError:
                continue
            # Unknown fields are ignored, so that {} or {"b": 1} may fit the wrong class.
            if not isinstance(value, dict) or cast("dict[str, Any]", value).keys() <= alternative.names:
                return made
            fits.append(made)
        if not fits:
            raise ValueError(f"Expected {expected}")
        return fits[0]

    return opaque(None, read)
