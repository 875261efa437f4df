"""What changed between two interfaces, in words."""

from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.testing import InterfaceChange, changes, interface, report
from tests.testing.booking import booking

PLAIN: dict[str, Any] = {
    "server": {"name": "weather"},
    "capabilities": {"tools": {"listChanged": True}},
    "tools": {
        "forecast": {
            "description": "Look it up.",
            "inputSchema": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "units": {"enum": ["metric", "imperial"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "outputSchema": {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]},
        }
    },
    "prompts": {"pack": {"arguments": [{"name": "city", "required": True}, {"name": "days"}]}},
    "resources": {"config://app": {"name": "config", "mimeType": "application/json"}},
}


def altered(path: str, value: Any) -> dict[str, Any]:
    """The plain interface with something else at a path; `...` takes away what is there."""

    def put(held: Any, steps: list[str]) -> Any:
        step, *rest = steps
        inner = put(held.get(step), rest) if rest else value
        return {name: item for name, item in {**(held or {}), step: inner}.items() if item is not ...}

    return put(PLAIN, path.split("/"))


INPUT = "tools/forecast/inputSchema"
OUTPUT = "tools/forecast/outputSchema"
TOOL = 'tool "forecast"'


@pytest.mark.parametrize(
    ("path", "value", "where", "what", "breaking"),
    [
        ("tools/forecast", ..., TOOL, "is gone", True),
        ("tools/other", {"inputSchema": {}}, 'tool "other"', "is new", False),
        (f"{INPUT}/properties/city", ..., TOOL, 'parameter "city" is gone', True),
        (f"{INPUT}/properties/lang", {}, TOOL, 'parameter "lang" is new', False),
        (f"{INPUT}/required", ["city", "units"], TOOL, 'parameter "units" is now required', True),
        (f"{INPUT}/required", [], TOOL, 'parameter "city" is no longer required', False),
        (f"{INPUT}/properties/city/type", "integer", TOOL, 'parameter "city": type: "string" -> "integer"', True),
        (f"{INPUT}/properties/city/maxLength", 5, TOOL, 'parameter "city": maxLength is new: 5', True),
        (f"{INPUT}/properties/city/description", "A", TOOL, 'parameter "city": description is new: "A"', False),
        (f"{INPUT}/properties/city/default", "Lima", TOOL, 'parameter "city": default is new: "Lima"', False),
        (f"{INPUT}/properties/units/enum", ["metric", "imperial", "si"], TOOL,
         'parameter "units": enum: ["metric","imperial"] -> ["metric","imperial","si"]', False),
        (f"{INPUT}/properties/units/enum", ["metric"], TOOL,
         'parameter "units": enum: ["metric","imperial"] -> ["metric"]', True),
        (f"{INPUT}/properties/city", True, TOOL, 'parameter "city": {"type":"string"} -> true', True),
        (f"{INPUT}/additionalProperties", ..., TOOL, "parameters: additionalProperties is gone; it was false", True),
        (f"{INPUT}/title", "Forecast", TOOL, 'parameters: title is new: "Forecast"', False),
        (f"{OUTPUT}/properties/degrees", ..., TOOL, 'result "degrees" is gone', True),
        (f"{OUTPUT}/properties/wind", {}, TOOL, 'result "wind" is new', False),
        (f"{OUTPUT}/required", [], TOOL, 'result "degrees" is no longer required', True),
        (f"{OUTPUT}/properties/degrees/enum", [1], TOOL, 'result "degrees": enum is new: [1]', True),
        ("tools/forecast/description", "Look.", TOOL, 'description: "Look it up." -> "Look."', False),
        ("tools/forecast/annotations", {"title": "F"}, TOOL, 'annotations is new: {"title":"F"}', False),
        ("prompts/pack/arguments", [{"name": "city", "required": True}],
         'prompt "pack"', 'argument "days" is gone', True),
        ("prompts/pack/arguments", [{"name": "city", "required": True}, {"name": "days", "required": True}],
         'prompt "pack"', 'argument "days" is now required', True),
        ("prompts/pack/arguments", [*PLAIN["prompts"]["pack"]["arguments"], {"name": "x", "required": True}],
         'prompt "pack"', 'argument "x" is new and required', True),
        ("resources/config:~~app", {}, 'resource "config:~~app"', "is new", False),
        ("resource_templates/a:{b}", {}, 'resource template "a:{b}"', "is new", False),
        ("server/name", "climate", "server", 'server: {"name":"weather"} -> {"name":"climate"}', False),
        ("instructions", "Ask.", "server", 'instructions is new: "Ask."', False),
        ("capabilities/tools", ..., "server", 'capability tools is gone; it was {"listChanged":true}', True),
        ("capabilities/logging", {}, "server", "capability logging is new: {}", False),
    ],
)  # fmt: skip
def test_every_kind_of_change_is_described(path: str, value: Any, where: str, what: str, breaking: bool) -> None:
    assert changes(PLAIN, altered(path, value)) == [InterfaceChange(where, what, breaking)]


def test_a_list_that_is_gone_takes_all_its_items_with_it() -> None:
    assert changes(PLAIN, altered("resources", ...)) == [InterfaceChange('resource "config://app"', "is gone", True)]


def test_an_output_schema_may_come_but_not_go() -> None:
    [gone] = changes(PLAIN, altered(OUTPUT, ...))
    [came] = changes(altered(OUTPUT, ...), PLAIN)
    assert (gone.breaking, came.breaking) == (True, False)
    assert gone.what.startswith("outputSchema is gone")


def test_more_to_choose_from_in_a_result_can_break_its_reader() -> None:
    before = altered(f"{OUTPUT}/properties/degrees", {"enum": [1]})
    after = altered(f"{OUTPUT}/properties/degrees", {"enum": [1, 2]})
    assert [change.breaking for change in changes(before, after)] == [True]
    assert [change.breaking for change in changes(after, before)] == [False]


def test_an_unchanged_interface_has_no_changes() -> None:
    assert changes(PLAIN, altered("tools/forecast/description", "Look it up.")) == []


def test_a_long_text_is_shown_by_its_lines() -> None:
    long = "\n".join(f"Line {number} of the description." for number in range(9))
    before = altered("tools/forecast/description", long)
    after = altered("tools/forecast/description", long.replace("Line 4", "Row 4"))
    assert report(changes(before, after)).splitlines() == [
        TOOL,
        "  ~ description changed:",
        "       Line 3 of the description.",
        "      -Line 4 of the description.",
        "      +Row 4 of the description.",
        "       Line 5 of the description.",
    ]


def test_a_long_schema_is_shown_by_its_lines() -> None:
    names = [f"choice number {number}" for number in range(9)]
    before = altered(f"{INPUT}/properties/city/enum", names)
    told = report(changes(before, altered(f"{INPUT}/properties/city/enum", names[:-1])))
    assert '  ! parameter "city": enum changed:' in told
    assert '      -  "choice number 8"' in told


async def test_a_real_server_that_changed() -> None:
    other = booking()
    other.remove_tool("add")
    other.remove_tool("count")

    @other.tool
    def add(a: int, c: int, b: int = 0) -> int:
        """Add numbers."""
        return a + b + c

    async def read(server: Server) -> Any:
        async with Client(server) as client:
            return await interface(client)

    assert report(changes(await read(booking()), await read(other))).splitlines() == [
        'tool "add"',
        '  ~ description: "Add two numbers." -> "Add numbers."',
        '  ~ parameter "b" is no longer required',
        '  ~ parameter "b": default is new: 0',
        '  ! parameter "c" is new and required',
        'tool "count"',
        "  ! is gone",
    ]
