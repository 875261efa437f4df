"""Results of calls: the type that the caller asked for, and advice about arguments that share a name with an option."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from dovetail.protocol.errors import InvalidAnswer, LocalError
from dovetail.protocol.revisions.revision import Revision
from dovetail.types.serialization import Value, load
from dovetail.types.tasks import CreatedTask
from dovetail.types.tools import CallToolResult

from .listing import load_result


def merge_arguments(arguments: Mapping[str, Any] | None, named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, given as a mapping, as keywords, or as both."""
    if arguments is None:
        return named
    if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LocalError(
            f"arguments is the mapping of all arguments, not {type(arguments).__name__}; "
            'for an argument of that name write arguments={"arguments": …}'
        )
    return {**arguments, **named}


def load_call_result(revision: Revision, method: str, raw: Any) -> Value:
    """Load the result of a call; raises `InvalidAnswer` if it is not valid. The call may have become a task."""
    members = cast("dict[str, Any]", raw) if type(raw) is dict else {}
    if members.get("resultType") == "task" and revision.tasks == "extension":
        try:
            return load(CreatedTask, members)
        except msgspec.ValidationError as problem:
            raise InvalidAnswer(f"Invalid result of {method}: {problem}") from None
    return load_result(revision, method, raw)


def convert_data(name: str, result: CallToolResult[Any], hint: Any) -> None:
    """Convert the data of a result to a type; raises `InvalidAnswer` with what does not fit, and where.

    A result without structured content is read from its text: as JSON, or as it is where the type is `str`.
    """
    from dovetail.schema.hints.conversion import converter_for

    converter = converter_for(hint)
    value = result.bare_value()
    if value is None and result.structured_content is msgspec.UNSET and (text := result.first_text()) is not None:
        value = text if hint is str else _json_in(text, name, converter.name)
    try:
        result.converted = converter.convert(value)
    except ValueError as problem:
        raise InvalidAnswer(f"Tool {name!r} returned something else than {converter.name}: {problem}") from problem


def _json_in(text: str, name: str, wanted: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidAnswer(f"Tool {name!r} returned text, and no data that could be {wanted}") from None


def taken_as_option(
    problem: str,
    tool: str,
    timeout: object = None,
    progress: object = None,
    meta: object = None,
    returns: object = None,
    *,
    check: bool = True,
) -> str | None:
    """Advice where a tool misses an argument that has the name of an option of `call`, and the option was given."""
    options = {
        "timeout": timeout,
        "progress": progress,
        "meta": meta,
        "returns": returns,
        "check": None if check else 1,
    }
    for option, value in options.items():
        if value is not None and _misses(problem, option):
            return (
                f"{option}= is an option of call, not an argument of the tool: "
                f'write call("{tool}", arguments={{"{option}": …}})'
            )
    return None


def _misses(problem: str, name: str) -> bool:
    """True if a text about arguments says that one of them is missing, in the words of any validator."""
    missing = r"\b(?:missing|required)\b"
    return re.search(rf"{missing}.*\b{name}\b|\b{name}\b.*{missing}", problem, re.DOTALL) is not None
