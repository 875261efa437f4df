"""Reading and writing `WWW-Authenticate`."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth import challenge
from dovetail.auth.challenge import MAX_CHALLENGES, MAX_PARAMETERS, MAX_TEXT, Challenge, parse, read, write
from dovetail.protocol.errors import LocalError

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  , ,", []),
        ("Bearer", [("bearer", {}, None)]),
        ("Bearer, Basic", [("bearer", {}, None), ("basic", {}, None)]),
        ('Bearer realm="a, b"', [("bearer", {"realm": "a, b"}, None)]),
        (r'Bearer realm="say \"hi\" \\"', [("bearer", {"realm": 'say "hi" \\'}, None)]),
        ('Bearer a="1" ,, b="2",', [("bearer", {"a": "1", "b": "2"}, None)]),
        ('BEARER Scope = "x y" , ERROR=invalid_token', [("bearer", {"scope": "x y", "error": "invalid_token"}, None)]),
        ("Negotiate YWJj==, Bearer x=1", [("negotiate", {}, "YWJj=="), ("bearer", {"x": "1"}, None)]),
        ("Negotiate  YWJj", [("negotiate", {}, "YWJj")]),
        (
            'Newauth realm="apps", type=1, title="Login to \\"apps\\"", Basic realm="simple"',
            [
                ("newauth", {"realm": "apps", "type": "1", "title": 'Login to "apps"'}, None),
                ("basic", {"realm": "simple"}, None),
            ],
        ),
        # What servers write although the grammar has it otherwise.
        ('Bearer a="1" b="2"', [("bearer", {"a": "1", "b": "2"}, None)]),
        (f"Bearer resource_metadata={METADATA}, a=1", [("bearer", {"resource_metadata": METADATA, "a": "1"}, None)]),
        ('Bearer a="1" DPoP algs="ES256"', [("bearer", {"a": "1"}, None), ("dpop", {"algs": "ES256"}, None)]),
        ('Bearer a="1", a="2"', [("bearer", {"a": "1"}, None)]),
        ('Bearer b="2", a=,', [("bearer", {"a": "", "b": "2"}, None)]),
        # From where it cannot be read it is ignored.
        ('Bearer a="1", b="2', [("bearer", {"a": "1"}, None)]),
        ('Bearer a="1\\', [("bearer", {}, None)]),
        ('Bearer a="1", (b="2"', [("bearer", {"a": "1"}, None)]),
        ("=", []),
    ],
)
def test_challenges_are_read(text: str, expected: list) -> None:
    assert list(parse(text)) == [Challenge(*each) for each in expected]


def test_the_parameters_for_a_client_are_properties() -> None:
    header = (
        f'Basic realm="x", Bearer error="insufficient_scope", scope="files:write  mcp", '
        f'resource_metadata="{METADATA}", error_description="More is needed"'
    )
    found = read({"www-authenticate": header})
    assert found.scheme == "bearer"
    assert found.resource_metadata == METADATA
    assert found.scopes == ("files:write", "mcp")
    assert found.error == "insufficient_scope" and found.insufficient_scope
    assert found.error_description == "More is needed"


@pytest.mark.parametrize("headers", [{}, {"www-authenticate": 'Basic realm="x"'}, {"www-authenticate": "\x00"}])
def test_without_a_challenge_there_is_nothing_to_find(headers: dict[str, str]) -> None:
    found = read(headers)
    assert found is challenge.NO_CHALLENGE
    assert (found.resource_metadata, found.scopes, found.error, found.insufficient_scope) == (None, (), None, False)


def test_bearer_and_dpop_say_it_together() -> None:
    found = read({"www-authenticate": f'DPoP algs="ES256", resource_metadata="{METADATA}", Bearer scope="a"'})
    assert (found.scheme, found.resource_metadata, found.scopes) == ("bearer", METADATA, ("a",))
    assert read({"www-authenticate": 'DPoP algs="ES256", error="use_dpop_nonce"'}).scheme == "dpop"


def test_of_two_challenges_of_one_scheme_the_first_counts() -> None:
    assert read({"www-authenticate": 'Bearer scope="a", Bearer scope="b"'}).scopes == ("a",)


def test_challenges_and_parameters_have_bounds() -> None:
    assert parse("Bearer " + "x" * MAX_TEXT) == ()
    assert len(parse("a, " * 1000)) == MAX_CHALLENGES
    [many] = parse("Bearer " + ", ".join(f"p{i}=1" for i in range(1000)))
    assert len(many.parameters) == MAX_PARAMETERS


@pytest.mark.parametrize("unit", [" ", ",", "a", "=", '"', "\\", "a ", 'a="', "a=,", "/", "a/", " =", "\t ", '\\"'])
@pytest.mark.parametrize("start", ["", "Bearer ", 'Bearer a="', "N a"])
def test_parsing_takes_linear_time(unit: str, start: str) -> None:
    # Reading each letter a few times takes milliseconds; going back and forth would take many seconds.
    text = (start + unit * MAX_TEXT)[: MAX_TEXT - 1] + "\x00"
    before = process_time()
    parse(text)
    assert process_time() - before < 1


@given(st.text())
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    parse(text)


@given(st.text(alphabet=' \t,="\\aB/~\x00é', max_size=60))
def test_any_text_that_looks_like_it_is_read(text: str) -> None:
    for found in parse(text):
        assert found.scheme == found.scheme.lower() != ""


SAYABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), min_size=1)


@given(SAYABLE, SAYABLE, st.lists(st.sampled_from(["a", "b:c", "d/e"]), unique=True))
def test_a_written_challenge_can_be_read(realm: str, description: str, scope: list[str]) -> None:
    text = write(
        realm=realm, resource_metadata=METADATA, scope=scope, error="invalid_token", error_description=description
    )
    [found] = parse(text)
    assert found.parameters["realm"] == realm
    assert found.resource_metadata == METADATA
    assert found.scopes == tuple(scope)
    assert found.error_description == description


def test_a_challenge_without_parameters() -> None:
    assert write() == "Bearer"
    assert write("DPoP", algs=["ES256", "EdDSA"]) == 'DPoP algs="ES256 EdDSA"'


def test_a_description_cannot_end_the_header() -> None:
    text = write(error="invalid_token", error_description='a"\r\nSet-Cookie: x\\é')
    assert "\r" not in text and "\n" not in text
    [found] = parse(text)
    assert list(found.parameters) == ["error", "error_description"]


@pytest.mark.parametrize(
    "given", [{"realm": 'a"b'}, {"resource_metadata": "https://x/\r\n"}, {"error": "é"}, {"scope": ["a b"]}]
)
def test_parameters_with_forbidden_characters_are_refused(given: dict) -> None:
    with pytest.raises(LocalError):
        write(**given)
