"""What an author says about one parameter inside `Annotated[...]`, in one form."""

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
        said = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.__slots__ if getattr(self, n) is not None)
        return f"Param({said})"

    def limits(self) -> dict[str, Any]:
        """The constraints that were given, by their Python names."""
        return {name: value for name in CONSTRAINTS if (value := getattr(self, name)) is not None}

    def notes(self) -> dict[str, Any]:
        """The annotations that were given, by their JSON Schema names."""
        said: dict[str, Any] = {}
        if self.title is not None:
            said["title"] = self.title
        if self.description is not None:
            said["description"] = self.description
        if self.examples is not None:
            said["examples"] = list(self.examples)
        if self.extra is not None:
            said.update(self.extra)
        return said


def merged(metadata: Sequence[object]) -> Param:
    """Every remark in `Annotated` metadata as one `Param`; what comes later wins.

    Understood are `Param`, `msgspec.Meta`, the `annotated_types` family (by attribute, so that it need not be
    installed), `Doc` of PEP 727 and a bare string as description. Anything else is for other readers.
    """
    said = Param()
    for remark in metadata:
        if isinstance(remark, str):
            said.description = remark
        elif isinstance(remark, (Param, msgspec.Meta)):
            _copy(remark, said)
        elif type(remark).__module__.partition(".")[0] == "annotated_types":
            _copy_annotated(remark, said)
        elif type(remark).__name__ == "Doc":
            said.description = getattr(remark, "documentation", said.description)
    return said


def _copy(remark: Param | msgspec.Meta, said: Param) -> None:
    for name in (*CONSTRAINTS, "title", "description", "examples"):
        value = getattr(remark, name)
        if value is not None:
            setattr(said, name, value)
    if isinstance(remark, Param):
        said.header = remark.header or said.header
        said.extra = remark.extra or said.extra
    elif remark.extra_json_schema is not None:
        said.extra = remark.extra_json_schema


def _copy_annotated(remark: object, said: Param) -> None:
    # Interval and Len group several limits: they iterate over them.
    if hasattr(type(remark), "__iter__"):
        for single in cast("Sequence[object]", remark):
            _copy_annotated(single, said)
        return
    for name in CONSTRAINTS:
        value = getattr(remark, name, None)
        if value is not None:
            setattr(said, name, value)


def header_of(hint: Any) -> str | None:
    """The header that a hint's `Param` asks for, if any."""
    remarks: tuple[object, ...] = getattr(hint, "__metadata__", ())
    asked = [remark.header for remark in remarks if isinstance(remark, Param) and remark.header is not None]
    return asked[-1] if asked else None
