"""The grammar of URI templates (RFC 6570, section 2)."""

from __future__ import annotations

import re

import msgspec

MAX_TEMPLATE = 2000
MAX_EXPRESSIONS = 32

_NAME = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*")
_MODIFIER = re.compile(r"\*|:[1-9][0-9]{0,3}")
_FORBIDDEN = re.compile(r"[\x00-\x20\"'<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})")

# Operator -> prefix and separator of an expansion.
_OPERATORS = {
    "": ("", ","), "+": ("", ","), "#": ("#", ","), ".": (".", "."),
    "/": ("/", "/"), ";": (";", ";"), "?": ("?", "&"), "&": ("&", "&"),
}  # fmt: skip
_STOPS = {"": "/?#", "+": "?#", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}


class Variable(msgspec.Struct, frozen=True):
    """A variable with its modifier: `{name}`, `{name*}` or `{name:3}`."""

    name: str
    exploded: bool
    length: int


class Expression(msgspec.Struct, frozen=True):
    """An expression in braces: an operator and variables."""

    operator: str
    variables: tuple[Variable, ...]
    prefix: str
    separator: str
    stops: str
    """The characters that no match of this expression contains."""
    allows_slashes: bool
    """A value may contain slashes."""


def parse(template: str) -> list[str | Expression]:
    """Parse a template into literal text and expressions; raises ValueError with the reason."""
    if len(template) > MAX_TEMPLATE:
        raise ValueError(f"it has more than {MAX_TEMPLATE} characters")
    parts: list[str | Expression] = []
    at = 0
    while at < len(template):
        start = template.find("{", at)
        literal = template[at:] if start < 0 else template[at:start]
        if literal:
            parts.append(_literal(literal))
        if start < 0:
            break
        end = template.find("}", start)
        if end < 0:
            raise ValueError("a brace is not closed")
        parts.append(_expression(template[start + 1 : end]))
        at = end + 1
    if sum(not isinstance(part, str) for part in parts) > MAX_EXPRESSIONS:
        raise ValueError(f"it has more than {MAX_EXPRESSIONS} expressions")
    return parts


def _literal(text: str) -> str:
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        raise ValueError(f"{forbidden[0]!r} is not allowed outside braces")
    return text


def _expression(body: str) -> Expression:
    operator = body[:1] if body[:1] and body[0] in "+#./;?&" else ""
    if body[:1] and body[0] in "=,!@|":
        raise ValueError(f"the operator {body[0]!r} is reserved")
    variables = tuple(_variable(text) for text in body[len(operator) :].split(","))
    if len({variable.name for variable in variables}) < len(variables):
        raise ValueError(f"{{{body}}} names a variable twice")
    prefix, separator = _OPERATORS[operator]
    exploded = any(variable.exploded for variable in variables)
    stops = _STOPS[operator]
    if operator == "" and exploded:
        stops = "?#"
    elif operator == "/" and not exploded and len(variables) == 1:
        stops = "/?#"
    allows_slashes = operator in ("+", "#")
    return Expression(operator, variables, prefix, separator, stops, allows_slashes)


def _variable(text: str) -> Variable:
    name = _NAME.match(text)
    if name is None:
        raise ValueError(f"{text!r} is no variable name")
    modifier = text[name.end() :]
    if modifier and not _MODIFIER.fullmatch(modifier):
        raise ValueError(f"{modifier!r} is no modifier of a variable")
    return Variable(name[0], modifier == "*", int(modifier[1:]) if modifier.startswith(":") else 0)
