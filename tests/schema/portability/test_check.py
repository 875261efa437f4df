"""Every rule of the portability check, with a definition that breaks it and nothing else."""

from typing import Any

import pytest

from dovetail.schema.portability.check import CheckedTool, Finding, check_tools
from dovetail.schema.portability.rules import DEFAULT_PROFILES, PROFILES, RULES, Profile

PLAIN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def schema(**properties: Any) -> dict[str, Any]:
    return {**PLAIN, "properties": properties, "required": list(properties)}


def found(*tools: CheckedTool, server: str = "inn") -> list[Finding]:
    return check_tools(tools, server, list(PROFILES))


def tool(input_schema: dict[str, Any] = PLAIN, name: str = "book", description: str = "Book.") -> CheckedTool:
    return CheckedTool(name, description, input_schema)


def nested(levels: int) -> dict[str, Any]:
    inner = schema()
    for _ in range(levels):
        inner = schema(x=inner)
    return inner


NODE = schema(children={"type": "array", "items": {"$ref": "#/$defs/Node"}})

BREAKING: dict[str, tuple[CheckedTool, str, str]] = {
    "name-characters": (tool(name="book room!"), "", "' ', '!'"),
    "name-start": (tool(name="2rooms"), "", "'2'"),
    "name-length": (tool(name="b" * 65), "", "65 characters"),
    "name-length-with-server": (tool(name="b" * 57), "", "60 characters"),
    "description-length": (tool(description="b" * 1025), "", "1025 characters"),
    "root-type": (tool({"properties": {}}), "", "type missing"),
    "root-composition": (tool({**PLAIN, "anyOf": [{"required": ["a"]}]}), "", "anyOf"),
    "root-properties": (tool({"type": "object", "additionalProperties": False}), "", "no properties"),
    "property-names": (tool(schema(**{"filter[id]": {"type": "string"}})), "filter[id]", "'filter[id]'"),
    "property-names-gemini": (tool(schema(**{"filter.id": {"type": "string"}})), "filter.id", "'filter.id'"),
    "array-items": (tool(schema(tags={"type": "array"})), "tags", "an array without items"),
    "type-list": (tool(schema(a={"type": ["string", "null"]})), "a", "type string or null"),
    "boolean-schema": (tool(schema(a={"type": "array", "items": True})), "a[]", "true"),
    "string-format": (tool(schema(a={"type": "string", "format": "uri"})), "a", "format uri"),
    "enum-values": (tool(schema(a={"type": "integer", "enum": [1, 2]})), "a", "1"),
    "keywords-gemini": (tool(schema(a={"const": "x"})), "a", "const"),
    "references": (
        tool({**schema(a={"$ref": "#/$defs/Name"}), "$defs": {"Name": {"type": "string"}}}),
        "a",
        "Name",
    ),
    "recursion": (tool({**schema(a={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}}), "", "Node"),
    "strict-required": (tool({**schema(a=schema(b={"type": "string"}) | {"required": []})}), "a.b", "not required"),
    "strict-additional": (tool(schema(a={"type": "object"})), "a", "other properties are allowed"),
    "strict-keywords": (tool(schema(a={"type": "string", "not": {"enum": ["x"]}})), "a", "not"),
    "strict-size": (tool(nested(10)), "", "11 levels"),
}


@pytest.mark.parametrize("rule", BREAKING)
def test_a_definition_that_breaks_a_rule_is_found_and_nothing_else(rule: str) -> None:
    broken, where, detail = BREAKING[rule]
    findings = found(broken)
    # Some definitions cannot break one rule alone: a name with a bracket breaks the rules of both.
    also = {
        "name-length": {"name-length-with-server"},
        "property-names": {"property-names-gemini"},
        "strict-keywords": {"keywords-gemini"},
    }.get(rule, set())
    assert {finding.rule.id for finding in findings} == {rule, *also}
    [finding] = [finding for finding in findings if finding.rule.id == rule]
    assert (finding.tool, finding.where, finding.detail) == (broken.name, where, detail)
    assert finding.profiles == finding.rule.profiles


def test_every_rule_has_a_definition_that_breaks_it() -> None:
    assert {rule.id for rule in RULES} == {*BREAKING, "tool-count"}
    assert {profile for rule in RULES for profile in rule.profiles} == set(PROFILES)


@pytest.mark.parametrize(
    ("count", "refusing"), [(80, ()), (81, ("cursor",)), (128, ("cursor",)), (129, ("openai", "vscode", "cursor"))]
)
def test_the_number_of_tools_is_limited_by_program(count: int, refusing: tuple[Profile, ...]) -> None:
    findings = found(*(tool(name=f"tool{number}") for number in range(count)))
    assert [finding.profiles for finding in findings] == ([refusing] if refusing else [])


def test_only_the_profiles_that_were_asked_for_are_checked() -> None:
    optional = tool({**schema(a={"type": "string", "format": "uri"}), "required": []})
    assert [finding.profiles for finding in check_tools([optional], profiles=DEFAULT_PROFILES)] == [("gemini",)]
    assert [finding.rule.id for finding in check_tools([optional], profiles=["openai-strict"])] == ["strict-required"]
    assert check_tools([optional], profiles=["anthropic", "cursor"]) == []


def test_a_plain_tool_is_accepted_by_all() -> None:
    assert found(tool(schema(name={"type": "string"}, tags={"type": "array", "items": {"type": "string"}}))) == []


def test_a_schema_of_odd_shape_is_checked_without_an_error() -> None:
    odd: dict[str, Any] = {"type": "object", "properties": ["a"], "required": 3, "anyOf": {}, "enum": "x", "$defs": 1}
    assert {finding.rule.id for finding in found(tool(odd))} >= {"root-composition"}
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"items": deep}
    assert found(tool(schema(deep=deep))) == []
