"""Pydantic types as parameters and results; pydantic is used only if the program has imported it."""

from __future__ import annotations

import sys
import typing
from typing import Any, Literal

Problem = tuple[tuple[int | str, ...], str]


def contains_pydantic(hint: Any) -> bool:
    """True if a hint contains a pydantic type, so that pydantic must read it."""
    return "pydantic" in sys.modules and _involves(hint, set())


def _involves(hint: Any, seen: set[int]) -> bool:
    if id(hint) in seen:
        return False
    seen.add(id(hint))
    if _is_pydantic(hint) or any(_is_pydantic(remark) for remark in getattr(hint, "__metadata__", ())):
        return True
    if any(_involves(arg, seen) for arg in typing.get_args(hint)):
        return True
    origin = typing.get_origin(hint) or hint
    if not isinstance(origin, type) or origin.__module__ == "builtins":
        return False
    try:
        fields = typing.get_type_hints(origin, include_extras=True)
    except Exception:
        return False  # the reader of the hint reports the error
    return any(_involves(field, seen) for field in fields.values())


def _is_pydantic(thing: Any) -> bool:
    if typing.get_origin(thing) is not None:
        return False
    kind: type = thing if isinstance(thing, type) else type(thing)
    return (
        hasattr(kind, "__pydantic_core_schema__")
        or hasattr(kind, "__get_pydantic_core_schema__")
        or kind.__module__.partition(".")[0] == "pydantic"
    )


def field_default(default: Any) -> tuple[Any, Any] | None:
    """For `x: int = Field(...)`: the field and the real default, `...` if there is none; else None."""
    if "pydantic" not in sys.modules:
        return None
    from pydantic.fields import FieldInfo

    if not isinstance(default, FieldInfo):
        return None
    real: Any = ... if default.is_required() else default.get_default(call_default_factory=True)
    return default, real


class PydanticType:
    """A hint that pydantic validates and serializes."""

    def __init__(self, hint: Any) -> None:
        from pydantic import TypeAdapter

        self._adapter: TypeAdapter[Any] = TypeAdapter(hint)

    def schema(self, direction: Literal["input", "output"]) -> dict[str, Any]:
        """Pydantic's JSON Schema for the hint, for input or for output."""
        mode = "validation" if direction == "input" else "serialization"
        return self._adapter.json_schema(mode=mode, ref_template="#/$defs/{model}")

    def load(self, value: Any) -> Any:
        """Convert a JSON value; raises pydantic's ValidationError, which is a ValueError."""
        return self._adapter.validate_python(value)

    def load_text(self, value: str) -> Any:
        """Convert a value that was sent as a string: as the string itself, else as the JSON in it."""
        try:
            return self._adapter.validate_python(value)
        except ValueError:
            return self._adapter.validate_json(value)

    def problems(self, value: Any) -> list[Problem]:
        """Pydantic's validation errors, as paths with sentences; empty if the value is valid."""
        from pydantic import ValidationError

        try:
            self.load(value)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            return [(item["loc"], item["msg"]) for item in details]
        except ValueError as error:
            return [((), str(error))]
        return []

    def dump(self, value: Any) -> Any:
        """A value as JSON builtins; raises ValueError if it does not match the hint."""
        validated = self._adapter.validate_python(value)
        return self._adapter.dump_python(validated, mode="json", by_alias=True, warnings="error")


def dump_any(value: Any) -> Any:
    """A model as JSON builtins, without a hint; raises TypeError for any other object."""
    dumper = getattr(value, "model_dump", None)
    if dumper is None:
        raise TypeError(f"{type(value).__qualname__} cannot be converted to JSON")
    return dumper(mode="json", by_alias=True)
