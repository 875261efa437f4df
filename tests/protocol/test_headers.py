"""Standard headers: written by a client, compared by a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.headers import check_headers, decode_value, encode_value, standard_headers

PATHS = {("region",): "Region", ("where", "zip"): "Zip", ("dry",): "Dry"}


@pytest.mark.parametrize(
    ("text", "header"),
    [
        # Streamable HTTP, "Value Encoding", and the edge cases of SEP-2243.
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        ("", ""),
        ("file:///path/to/file%20name.txt", "file:///path/to/file%20name.txt"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?open", "=?base64?open"),
    ],
)
def test_values_are_encoded_as_the_tables_say(text, header):
    assert encode_value(text) == header
    assert decode_value(header) == text


@pytest.mark.parametrize("header", ["SGVsbG8=", "=?base64?SGVsbG8=", "=?BASE64?SGVsbG8=?=", "=?base64?=", "a\tb"])
def test_values_without_the_base64_marks_are_plain_text(header):
    assert decode_value(header) == header


@pytest.mark.parametrize(
    "header",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG8=SGVsbG8=?=",
        "=?base64?/w==?=",
        "größe",
        "a\nb",
        "a\x7f",
    ],
)
def test_malformed_values_are_refused(header):
    with pytest.raises(ValueError, match="it"):
        decode_value(header)


@given(st.text(st.characters(blacklist_categories=("Cs",))))
def test_every_text_survives_and_its_header_is_harmless(text):
    header = encode_value(text)
    assert decode_value(header) == text
    assert header.isascii()
    assert header.isprintable()
    assert header == header.strip()


def test_a_client_writes_what_the_body_says():
    params = {"name": "größe", "arguments": {"region": "us", "where": {"zip": 42}, "dry": True}}
    assert standard_headers("tools/call", params, "R", PATHS) == {
        "MCP-Protocol-Version": "R",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=",
        "Mcp-Param-Region": "us",
        "Mcp-Param-Zip": "42",
        "Mcp-Param-Dry": "true",
    }


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("resources/read", {"uri": "a://b", "name": "no"}, "a://b"),
        ("prompts/get", {"name": "p"}, "p"),
        ("tasks/get", {"taskId": "t"}, "t"),
        ("tasks/update", {"taskId": "t"}, "t"),
        ("tasks/cancel", {"taskId": "t"}, "t"),
        ("tools/list", {"name": "no"}, None),
        ("tools/call", {"name": 3}, None),
        ("notifications/cancelled", {}, None),
    ],
)
def test_the_name_has_its_source(method, params, name):
    assert standard_headers(method, params, None).get("Mcp-Name") == name


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"region": None, "where": None}, {}),
        ({}, {}),
        (None, {}),
        ([], {}),
        ({"region": ["no"], "where": {"zip": {}}}, {}),
        ({"where": {"zip": -7}, "dry": False}, {"Mcp-Param-Zip": "-7", "Mcp-Param-Dry": "false"}),
        ({"where": {"zip": 42.0}}, {"Mcp-Param-Zip": "42"}),
        ({"where": {"zip": 3.14159}}, {"Mcp-Param-Zip": "3.14159"}),
        ({"where": {"zip": 1e300}}, {"Mcp-Param-Zip": "1e+300"}),
        ({"where": {"zip": 2**53 - 1}}, {"Mcp-Param-Zip": "9007199254740991"}),
    ],
)
def test_arguments_are_mirrored_where_there_is_a_value(arguments, expected):
    params = {"name": "t"} if arguments is None else {"name": "t", "arguments": arguments}
    headers = standard_headers("tools/call", params, None, PATHS)
    assert {name: value for name, value in headers.items() if name.startswith("Mcp-Param-")} == expected


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**5000], ids=["above", "below", "huge"])
def test_an_integer_that_no_header_may_carry_is_said_by_name(number):
    with pytest.raises(ValueError, match=r"where\.zip"):
        standard_headers("tools/call", {"arguments": {"where": {"zip": number}}}, None, PATHS)


def test_a_method_cannot_break_out_of_its_header():
    assert standard_headers("a\r\nX: y", {}, None) == {}


def _headers(**named):
    return {name.replace("_", "-").encode(): value for name, value in named.items()}


def _call(arguments=None, name="t"):
    return {"name": name} if arguments is None else {"name": name, "arguments": arguments}


GOOD = {"mcp_method": b"tools/call", "mcp_name": b"t"}


@given(
    st.text(st.characters(blacklist_categories=("Cs",)), max_size=30),
    st.fixed_dictionaries(
        {},
        optional={
            "region": st.none() | st.text(st.characters(blacklist_categories=("Cs",)), max_size=20),
            "where": st.fixed_dictionaries(
                {"zip": st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)}
            ),
            "dry": st.booleans(),
        },
    ),
)
def test_headers_written_by_a_client_pass_the_check_of_a_server(name, arguments):
    params = _call(arguments, name)
    written = standard_headers("tools/call", params, "R", PATHS)
    seen = {header.lower().encode(): value.encode() for header, value in written.items()}
    assert check_headers(seen, "tools/call", params, PATHS, required=True) is None


def test_missing_headers_matter_only_where_they_are_required():
    params = _call({"region": "us"})
    assert check_headers({}, "tools/call", params, PATHS, required=False) is None
    assert check_headers({}, "tools/call", params, PATHS, required=True) == "The Mcp-Method header is missing"
    seen = _headers(mcp_method=b"tools/call")
    assert check_headers(seen, "tools/call", params, PATHS, required=True) == "The Mcp-Name header is missing"
    reason = check_headers(_headers(**GOOD), "tools/call", params, PATHS, required=True)
    assert reason is not None and "Mcp-Param-Region header is missing" in reason


def test_the_name_of_a_task_is_compared_but_not_demanded():
    seen = _headers(mcp_method=b"tasks/get")
    assert check_headers(seen, "tasks/get", {"taskId": "a"}, None, required=True) is None
    seen[b"mcp-name"] = b"b"
    assert check_headers(seen, "tasks/get", {"taskId": "a"}, None, required=True) is not None


def test_a_method_without_name_takes_any():
    seen = _headers(mcp_method=b"tools/list", mcp_name=b"what")
    assert check_headers(seen, "tools/list", {}, None, required=True) is None


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("changed", "params", "said"),
    [
        ({"mcp_method": b"TOOLS/CALL"}, _call(), "Mcp-Method header has 'TOOLS/CALL', the body 'tools/call'"),
        ({"mcp_name": b"foo"}, _call(), "Mcp-Name header has 'foo'"),
        ({"mcp_name": "größe".encode()}, _call(name="größe"), "malformed"),
        ({"mcp_name": b"a\x01b"}, _call(name="a\x01b"), "malformed"),
        ({"mcp_name": b"=?base64?SGVsbG8?="}, _call(name="Hello"), "malformed"),
        ({"mcp_name": b"=?base64?dA?="}, _call(name="=?base64?dA?="), "malformed"),
        ({"mcp_name": b"=?base64?dA==?="}, _call(name="=?base64?dA==?="), "something else"),
        ({}, {}, "no value"),
        ({"mcp_name": b"3"}, {"name": ["3"]}, "something else"),
        ({"mcp_param_region": b"eu"}, _call({"region": "us"}), "Mcp-Param-Region header has 'eu'"),
        ({"mcp_param_region": b"us"}, _call({"region": None}), "no value"),
        ({"mcp_param_region": b"us"}, _call(), "no value"),
        ({"mcp_param_region": b"us"}, _call({"region": ["us"]}), "something else"),
        ({"mcp_param_zip": b"42.5"}, _call({"where": {"zip": 42}}), "something else"),
        ({"mcp_param_zip": b"4503599627370497.2"}, _call({"where": {"zip": 4503599627370497}}), "something else"),
        ({"mcp_param_zip": b"4_2"}, _call({"where": {"zip": 42}}), "something else"),
        ({"mcp_param_zip": b"nan"}, _call({"where": {"zip": 42}}), "something else"),
        ({"mcp_param_zip": b"9" * 500}, _call({"where": {"zip": 42}}), "something else"),
        ({"mcp_param_zip": b"1e999999999999999999999"}, _call({"where": {"zip": 42}}), "something else"),
        ({"mcp_param_zip": b"9007199254740992"}, _call({"where": {"zip": 2**53}}), "beyond"),
        ({"mcp_param_dry": b"True"}, _call({"dry": True}), "something else"),
        ({"mcp_param_dry": b"1"}, _call({"dry": True}), "something else"),
    ],
)
def test_a_mismatch_has_its_reason(changed, params, said, required):
    reason = check_headers(_headers(**GOOD) | _headers(**changed), "tools/call", params, PATHS, required=required)
    assert reason is not None
    assert said in reason
    assert len(reason) < 300


@pytest.mark.parametrize(
    ("header", "value"),
    [(b"42", 42), (b"42.0", 42), (b"4.2e1", 42), (b"42", 42.0), (b"0.5", 0.5), (b"-0", 0), (b"=?base64?NDI=?=", 42)],
)
def test_numbers_are_compared_as_numbers(header, value):
    seen = _headers(**GOOD, mcp_param_zip=header)
    assert check_headers(seen, "tools/call", _call({"where": {"zip": value}}), PATHS, required=True) is None


def test_a_text_is_compared_as_a_text():
    seen = _headers(**GOOD, mcp_param_region=b"42.0")
    assert check_headers(seen, "tools/call", _call({"region": "42"}), PATHS, required=True) is not None


def test_an_argument_of_a_wrong_kind_is_left_to_the_schema():
    assert check_headers(_headers(**GOOD), "tools/call", _call({"region": ["us"]}), PATHS, required=True) is None


def test_parameters_of_a_tool_nobody_knows_are_ignored():
    seen = _headers(**GOOD, mcp_param_region=b"eu")
    assert check_headers(seen, "tools/call", _call({"region": "us"}), None, required=True) is None
