"""Names of tools and of mirrored headers."""

from __future__ import annotations

import pytest

from dovetail.protocol.names import check_tool_name, header_paths


@pytest.mark.parametrize("name", ["getUser", "DATA_EXPORT_v2", "admin.tools.list", "a", "x" * 128, "a-b"])
def test_good_tool_names_bring_no_warning(name):
    assert check_tool_name(name) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "0 characters"),
        ("x" * 129, "129 characters"),
        ("a b,c b", "' ,'"),
        ("größe", "öß"),
        ("a\n", "\\n"),
    ],
)
def test_a_warning_says_what_is_wrong(name, said):
    warning = check_tool_name(name)
    assert warning is not None
    assert said in warning


def test_a_warning_stays_short():
    assert len(check_tool_name("x" * 100_000) or "") < 300


def _tool(**properties):
    return {"type": "object", "properties": properties}


def test_headers_are_found_at_any_depth_of_properties():
    schema = _tool(
        city={"type": "string", "x-mcp-header": "City"},
        place=_tool(zip={"type": "integer", "x-mcp-header": "Zip"}),
        plain={"type": "string"},
    )
    assert header_paths(schema) == {("city",): "City", ("place", "zip"): "Zip"}


def test_a_property_may_be_called_like_the_keyword():
    assert header_paths(_tool(**{"x-mcp-header": {"type": "string"}})) == {}


def test_defaults_and_examples_are_data():
    assert header_paths(_tool(a={"type": "object", "default": {"x-mcp-header": "A"}})) == {}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (_tool(a={"type": "number", "x-mcp-header": "A"}), "only a string, integer or boolean"),
        (_tool(a={"type": ["string", "null"], "x-mcp-header": "A"}), "only a string, integer or boolean"),
        (_tool(a={"type": "string", "x-mcp-header": ""}), "no HTTP token"),
        (_tool(a={"type": "string", "x-mcp-header": "A b"}), "no HTTP token"),
        (_tool(a={"type": "string", "x-mcp-header": "A\r\nB"}), "no HTTP token"),
        (_tool(a={"type": "string", "x-mcp-header": 3}), "no HTTP token"),
        (
            _tool(a={"type": "string", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": "a"}),
            "used by both",
        ),
        (_tool(a={"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}), "no fixed path"),
        (_tool(a={"anyOf": [{"type": "string", "x-mcp-header": "A"}]}), "no fixed path"),
        (_tool() | {"$defs": {"D": {"type": "string", "x-mcp-header": "A"}}}, "no fixed path"),
        (_tool() | {"if": _tool(a={"type": "string", "x-mcp-header": "A"})}, "no fixed path"),
    ],
)
def test_violations_of_header_rules_are_named(schema, said):
    with pytest.raises(ValueError, match=said):
        header_paths(schema)


def test_numbers_are_mirrored_only_where_asked_for():
    schema = _tool(a={"type": "number", "x-mcp-header": "A"})
    assert header_paths(schema, numbers=True) == {("a",): "A"}
    with pytest.raises(ValueError, match="only a string, integer or boolean can"):
        header_paths(schema)
    with pytest.raises(ValueError, match="boolean or number can"):
        header_paths(_tool(a={"type": "object", "x-mcp-header": "A"}), numbers=True)
