"""The rules of the portability check, as data: who refuses which definitions, and what an author can do.

A rule is here only if the documentation of a program states it, or its error message was published. Limits of
products change, so each rule has the month of its source.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Profile: TypeAlias = Literal["openai", "openai-strict", "anthropic", "gemini", "cursor", "vscode"]

PROFILES: dict[Profile, str] = {
    "openai": "OpenAI",
    "openai-strict": "OpenAI (strict)",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
"""The programs and APIs that are checked for, each with its name.

OpenAI is its function calling; Anthropic its Messages API, which Claude Code uses; Gemini the field `parameters` of
function declarations, which is more limited than the newer `parametersJsonSchema`.
"""

DEFAULT_PROFILES: tuple[Profile, ...] = ("openai", "anthropic", "gemini", "cursor", "vscode")
"""All but strict mode, which clients turn on only for schemas that are made for it."""


class Rule(NamedTuple):
    """A limit of one or more programs."""

    id: str
    profiles: tuple[Profile, ...]
    problem: str
    """The definition that is refused."""
    remedy: str
    source: str
    """The document or message that states the limit."""
    checked: str
    """Month in which the source was published, or read if it has no date."""


NAME_LIMIT = 64
CURSOR_NAME_LIMIT = 59
DESCRIPTION_LIMIT = 1024
TOOL_LIMITS: dict[Profile, int] = {"openai": 128, "vscode": 128, "cursor": 80}
STRICT_PROPERTY_LIMIT = 5000
STRICT_LEVEL_LIMIT = 10
STRICT_ENUM_LIMIT = 1000
STRICT_CHARACTER_LIMIT = 120_000

_OPENAI_DOCS = "OpenAI documentation, Structured Outputs, supported schemas"
_OPENAI_ERROR = "error message of the OpenAI API"
_ANTHROPIC_ERROR = "error message of the Anthropic API"
_GEMINI_ERROR = "error message of the Gemini API"
_GEMINI_DOCS = "Gemini API reference, Schema and FunctionDeclaration"

RULES: tuple[Rule, ...] = (
    Rule(
        "name-characters",
        ("openai", "anthropic"),
        "the name of a tool has characters other than letters, digits, `_` and `-`",
        "rename the tool, with name=… at its registration",
        "OpenAI API reference; Anthropic documentation, Define tools",
        "2026-11",
    ),
    Rule(
        "name-start",
        ("gemini",),
        "the name of a tool does not begin with a letter or `_`",
        "rename the tool",
        _GEMINI_DOCS,
        "2026-11",
    ),
    Rule(
        "name-length",
        ("openai", "gemini"),
        f"the name of a tool is longer than {NAME_LIMIT} characters",
        "shorten the name; clients put the name of the server before it as well",
        f"{_OPENAI_ERROR}; {_GEMINI_DOCS}",
        "2026-01",
    ),
    Rule(
        "name-length-with-server",
        ("cursor",),
        f"the names of server and tool together are longer than {CURSOR_NAME_LIMIT} characters",
        "shorten the name of the tool, or configure the server under a shorter name",
        "warning of Cursor, which leaves such tools out",
        "2026-02",
    ),
    Rule(
        "tool-count",
        ("openai", "vscode", "cursor"),
        "the server has more tools than one request may have (128; Cursor: 80)",
        "offer fewer tools, or split the server; the tools of all servers count together",
        f"{_OPENAI_ERROR}; Visual Studio Code; warning of Cursor",
        "2026-06",
    ),
    Rule(
        "description-length",
        ("openai",),
        f"the description of a tool is longer than {DESCRIPTION_LIMIT} characters",
        "shorten the description, and move details to the descriptions of arguments",
        _OPENAI_ERROR,
        "2025-04",
    ),
    Rule(
        "root-type",
        ("openai",),
        "the input schema is not of type object",
        'make the input schema an object, as the protocol requires: "type": "object"',
        _OPENAI_ERROR,
        "2025-06",
    ),
    Rule(
        "root-composition",
        ("openai", "anthropic"),
        "the input schema has `anyOf`, `oneOf` or `allOf` at its top level",
        "describe all arguments in one object, and check their combination in the tool",
        f"{_ANTHROPIC_ERROR}; {_OPENAI_ERROR}",
        "2026-07",
    ),
    Rule(
        "root-properties",
        ("openai",),
        "the input schema has no `properties`",
        'add "properties": {}',
        _OPENAI_ERROR,
        "2026-03",
    ),
    Rule(
        "property-names",
        ("anthropic",),
        "the name of an argument has characters other than letters, digits, `_`, `.` and `-`, or more than 64",
        "rename the argument",
        _ANTHROPIC_ERROR,
        "2026-09",
    ),
    Rule(
        "property-names-gemini",
        ("gemini",),
        "the name of an argument has characters other than letters, digits and `_`, or begins with a digit",
        "rename the argument",
        "Vertex AI reference, FunctionDeclaration",
        "2025-09",
    ),
    Rule(
        "array-items",
        ("openai", "gemini"),
        "an array does not say of what: it has no `items`",
        "say what the list holds, such as list[str]",
        f"{_OPENAI_ERROR}; {_GEMINI_ERROR}",
        "2026-04",
    ),
    Rule(
        "type-list",
        ("gemini",),
        "`type` is a list of types",
        'use one type, or "anyOf" with one type each',
        _GEMINI_ERROR,
        "2026-09",
    ),
    Rule(
        "boolean-schema",
        ("gemini",),
        "a schema is `true` or `false` instead of an object",
        "use {} for any value",
        "report on Gemini models in Copilot CLI",
        "2026-09",
    ),
    Rule(
        "string-format",
        ("gemini",),
        "a string has a `format` other than `date-time` and `enum`",
        "say the format in the description of the argument instead",
        _GEMINI_ERROR,
        "2025-07",
    ),
    Rule(
        "enum-values",
        ("gemini",),
        "an `enum` has values that are not strings",
        "use strings, or a range of numbers (`minimum`, `maximum`)",
        _GEMINI_ERROR,
        "2026-01",
    ),
    Rule(
        "keywords-gemini",
        ("gemini",),
        "a keyword that the API does not know, such as `const`, `oneOf`, `allOf` or `exclusiveMinimum`",
        "use `enum`, `anyOf`, `minimum` and `maximum`, and check the rest in the tool",
        f"{_GEMINI_DOCS}; {_GEMINI_ERROR}",
        "2026-09",
    ),
    Rule(
        "references",
        ("gemini",),
        "a type is written as a reference (`$ref`)",
        "take plain arguments in place of nested types; many clients resolve references, not all",
        f"{_GEMINI_ERROR}; error message of Gemini CLI",
        "2026-08",
    ),
    Rule(
        "recursion",
        ("gemini",),
        "a type refers to itself, so that no client can resolve the reference",
        "take a list with the parent of each item, or JSON in a string",
        "Vertex AI reference: cyclic references work in optional properties only, to a limited depth",
        "2026-11",
    ),
    Rule(
        "strict-required",
        ("openai-strict",),
        "an argument is not required",
        "make it required and let it be null, as `Optional[int]` without a default",
        _OPENAI_DOCS,
        "2026-02",
    ),
    Rule(
        "strict-additional",
        ("openai-strict",),
        'an object has no "additionalProperties": false',
        "use a dataclass in place of a dict, and forbid other properties",
        _OPENAI_DOCS,
        "2026-02",
    ),
    Rule(
        "strict-keywords",
        ("openai-strict",),
        "a keyword that strict mode does not know, such as `allOf`, `oneOf`, `not` or `if`",
        "check this in the tool",
        _OPENAI_DOCS,
        "2026-02",
    ),
    Rule(
        "strict-size",
        ("openai-strict",),
        f"the schema has more than {STRICT_PROPERTY_LIMIT} properties, {STRICT_LEVEL_LIMIT} levels of objects, "
        f"{STRICT_ENUM_LIMIT} values of enums, or {STRICT_CHARACTER_LIMIT} characters of names and values",
        "split the tool, or take free text in place of a long enum",
        _OPENAI_DOCS,
        "2026-02",
    ),
)
"""All rules, in the order of the report."""
