"""Form fields at a terminal: prompts, and conversion of what the user types."""

from __future__ import annotations

import math
from typing import Any, cast

_YES = frozenset({"y", "yes", "true", "1", "on"})
_NO = frozenset({"n", "no", "false", "0", "off"})
_HINTS = {"boolean": "yes/no", "integer": "a whole number", "number": "a number", "array": "several, with commas"}
_FORMATS = {"date": "YYYY-MM-DD", "date-time": "YYYY-MM-DDThh:mm:ssZ", "email": "an e-mail address", "uri": "a URL"}


class FormField:
    """One field of a form."""

    def __init__(self, name: str, schema: dict[str, Any], *, required: bool) -> None:
        self.name = name
        self.required = required
        self._schema = schema
        self._options = _options(schema)

    def introduction(self) -> list[str]:
        """Lines to show before the prompt: the description and the choices."""
        lines = [f"  {_one_line(text)}" for text in [self._schema.get("description")] if text]
        for number, (value, title) in enumerate(self._options, start=1):
            lines.append(f"  {number}) {_one_line(title)}" + (f" ({_one_line(value)})" if title != value else ""))
        return lines

    def prompt(self, current: Any) -> str:
        """The prompt, with hints and the current value."""
        label = _one_line(self._schema.get("title") or self.name)
        kind = self._schema.get("type", "")
        hint = _FORMATS.get(self._schema.get("format", "")) or _HINTS.get(kind, "")
        if self._options and kind != "array":
            hint = f"1-{len(self._options)}"
        if not self.required and current is None:
            hint = f"{hint}, optional" if hint else "optional"
        return f"{label}{f' ({hint})' if hint else ''}{f' [{self.shown(current)}]' if current is not None else ''}: "

    def shown(self, value: Any) -> str:
        """A value as the user would type it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return ", ".join(map(str, cast("list[object]", value)))
        return str(value)

    def read(self, text: str) -> Any:
        """Convert typed text; ValueError with a reason if it does not fit the schema."""
        from dovetail.schema.forms import problems

        value = self._convert(text)
        schema = {"type": "object", "properties": {self.name: self._schema}, "required": [self.name]}
        if errors := problems(schema, {self.name: value}):
            raise ValueError("; ".join(text.removeprefix(f"{self.name}: ") for text in errors))
        return value

    def _convert(self, text: str) -> Any:
        kind = self._schema.get("type")
        if kind == "array":
            return [self._chosen(part.strip()) for part in text.split(",") if part.strip()]
        if self._options:
            return self._chosen(text)
        if kind == "boolean":
            if (word := text.lower()) not in _YES | _NO:
                raise ValueError("enter yes or no")
            return word in _YES
        if kind not in ("integer", "number"):
            return text
        number = read_number(text)
        if number is None or (kind == "integer" and number != int(number)):
            raise ValueError(f"enter {_HINTS[str(kind)]}")
        return int(number) if kind == "integer" else number

    def _chosen(self, text: str) -> str:
        """A choice by its value, title or number, in this order: a value may look like a number."""
        for value, _ in self._options:
            if text == value:
                return value
        for value, title in self._options:
            if text.lower() in (title.lower(), value.lower()):
                return value
        if text.isascii() and text.isdigit() and 1 <= int(text) <= len(self._options):
            return self._options[int(text) - 1][0]
        raise ValueError(f"{text!r} is not one of the choices")


def read_number(text: str) -> int | float | None:
    """Parse a number that JSON can represent; None if it is none."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def form_fields(schema: dict[str, Any]) -> list[FormField] | None:
    """The fields of a form; None if the schema is not one of the protocol's flat forms."""
    from dovetail.protocol.errors import LocalError
    from dovetail.schema.form_check import check_form

    try:
        check_form(schema)
    except LocalError:
        return None
    required = schema.get("required", [])
    return [FormField(name, field, required=name in required) for name, field in schema["properties"].items()]


def _one_line(text: object) -> str:
    """Join lines: text of a server must not look like the next prompt."""
    return " ".join(str(text).split())


def _options(field: dict[str, Any]) -> list[tuple[str, str]]:
    """(value, title) of each choice."""
    source = field.get("items", field)
    titled = source.get("oneOf", source.get("anyOf"))
    if titled is not None:
        return [(option["const"], option["title"]) for option in titled]
    values = source.get("enum", [])
    return list(zip(values, source.get("enumNames", values), strict=True))
