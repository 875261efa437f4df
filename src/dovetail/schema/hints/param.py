"""`Param`: description, limits and header of a parameter in `Annotated[...]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

CONSTRAINTS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


class Param:
    """A parameter's description, limits and header, for use in `Annotated[str, Param(...)]`.

    `header` mirrors the argument into the HTTP header `Mcp-Param-<header>`; it fits strings, integers and
    booleans only (Streamable HTTP, "Custom Headers from Tool Parameters").
    """

    __slots__ = (
        "description", "examples", "extra", "ge", "gt", "header", "le", "lt",
        "max_length", "min_length", "multiple_of", "pattern", "title",
    )  # fmt: skip

    def __init__(
        self,
        description: str | None = None,
        *,
        title: str | None = None,
        header: str | None = None,
        ge: float | None = None,
        gt: float | None = None,
        le: float | None = None,
        lt: float | None = None,
        multiple_of: float | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        pattern: str | None = None,
        examples: Sequence[Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.description = description
        self.title = title
        self.header = header
        self.ge = ge
        self.gt = gt
        self.le = le
        self.lt = lt
        self.multiple_of = multiple_of
        self.min_length = min_length
        self.max_length = max_length
        self.pattern = pattern
        self.examples = examples
        self.extra = extra

    def __repr__(self) -> str:
        given = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.__slots__ if getattr(self, n) is not None)
        return f"Param({given})"

    def limits(self) -> dict[str, Any]:
        """The given constraints, by their Python names."""
        return {name: value for name in CONSTRAINTS if (value := getattr(self, name)) is not None}

    def notes(self) -> dict[str, Any]:
        """The given annotations, by their JSON Schema names."""
        notes: dict[str, Any] = {}
        if self.title is not None:
            notes["title"] = self.title
        if self.description is not None:
            notes["description"] = self.description
        if self.examples is not None:
            notes["examples"] = list(self.examples)
        if self.extra is not None:
            notes.update(self.extra)
        return notes


def merge_metadata(metadata: Sequence[object]) -> Param:
    """Merge the metadata of `Annotated` into one `Param`; later items take precedence.

    Supported are `Param`, `msgspec.Meta`, `annotated_types` (by attribute, so that it need not be installed), `Doc` of
    PEP 727, and a string as description. Anything else is ignored.
    """
    merged_param = Param()
    for item in metadata:
        if isinstance(item, str):
            merged_param.description = item
        elif isinstance(item, (Param, msgspec.Meta)):
            _copy(item, merged_param)
        elif type(item).__module__.partition(".")[0] == "annotated_types":
            _copy_annotated(item, merged_param)
        elif type(item).__name__ == "Doc":
            merged_param.description = getattr(item, "documentation", merged_param.description)
    return merged_param


def _copy(item: Param | msgspec.Meta, merged_param: Param) -> None:
    for name in (*CONSTRAINTS, "title", "description", "examples"):
        value = getattr(item, name)
        if value is not None:
            setattr(merged_param, name, value)
    if isinstance(item, Param):
        merged_param.header = item.header or merged_param.header
        merged_param.extra = item.extra or merged_param.extra
    elif item.extra_json_schema is not None:
        merged_param.extra = item.extra_json_schema


def _copy_annotated(item: object, merged_param: Param) -> None:
    # Interval and Len are groups of limits, and iterate over them.
    if hasattr(type(item), "__iter__"):
        for single in cast("Sequence[object]", item):
            _copy_annotated(single, merged_param)
        return
    for name in CONSTRAINTS:
        value = getattr(item, name, None)
        if value is not None:
            setattr(merged_param, name, value)


def header_of(hint: Any) -> str | None:
    """The header of a hint's `Param`, if there is one."""
    items: tuple[object, ...] = getattr(hint, "__metadata__", ())
    headers = [item.header for item in items if isinstance(item, Param) and item.header is not None]
    return headers[-1] if headers else None
