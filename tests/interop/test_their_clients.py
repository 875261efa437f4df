"""The clients of the official SDKs with our server: old and new, Python and TypeScript, both eras.

Each client makes the same tour of programs/dovetail_server.py (programs/tour.py, or the same in
programs/typescript_client.mjs) and prints what it saw. The handshake clients always ask for 2025-11-25; the
server answers with the newest revision that it was told to speak, so the older ones are met too.
"""

import functools
import json
import subprocess
from typing import Any

import pytest

from tests.interop.peers import ENVELOPE, HANDSHAKE, node_program, our_server, python_program

pytestmark = pytest.mark.interop

PROGRAMS = {
    "python 2": lambda mode: [*python_program("mcp", "mcp_client.py"), mode],
    "python 1": lambda mode: python_program("mcp1", "mcp1_client.py"),
    "typescript 2": lambda mode: [*node_program("typescript_client.mjs"), mode],
    "typescript 1": lambda mode: [*node_program("typescript_client.mjs"), "v1"],
}
# Who asks how, which revisions the server has (all if none is named), and the one that they agree on.
TOURS = [
    *[("python 2", "legacy", (revision,), revision) for revision in HANDSHAKE],
    ("python 2", ENVELOPE, (), ENVELOPE),
    ("python 2", "auto", (), ENVELOPE),
    ("python 2", "auto", HANDSHAKE[:3], HANDSHAKE[2]),
    ("python 1", "", (), HANDSHAKE[-1]),
    ("python 1", "", HANDSHAKE[:1], HANDSHAKE[0]),
    ("typescript 2", "legacy", (), HANDSHAKE[-1]),
    ("typescript 2", ENVELOPE, (), ENVELOPE),
    ("typescript 2", "auto", HANDSHAKE[:3], HANDSHAKE[2]),
    ("typescript 1", "", (), HANDSHAKE[-1]),
    ("typescript 1", "", HANDSHAKE[:1], HANDSHAKE[0]),
]

DATA = [("add", 3), ("numbers", [0, 1, 2]), ("colour", "dark red"), ("point", {"x": 1, "y": 0.5})]


def printed(command: list[str]) -> dict[str, Any]:
    """What a client printed of its visit."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def tour(program: str, mode: str, served: tuple[str, ...]) -> dict[str, Any]:
    """What a client saw; every test of a worker looks at the same tour."""
    return printed([*PROGRAMS[program](mode), *our_server(*served)])


class Seen:
    """One tour, and what it must agree with."""

    def __init__(self, program: str, mode: str, revision: str, saw: dict[str, Any]) -> None:
        self.program = program
        self.revision = revision
        self.modern = revision == ENVELOPE
        self.pinned = (program, mode) == ("python 2", ENVELOPE)
        self.all = saw

    def __getitem__(self, part: str) -> Any:
        return self.all[part]


@pytest.fixture(
    scope="module",
    params=TOURS,
    ids=lambda way: f"{way[0]} {way[1] or 'initialize'} on {way[3]}".replace(" ", "-"),
)
def seen(request: pytest.FixtureRequest) -> Seen:
    program, mode, served, revision = request.param
    return Seen(program, mode, revision, tour(program, mode, served))


def test_they_agree_on_the_revision(seen: Seen) -> None:
    whoami = json.loads(seen["call whoami"]["content"][0]["text"])
    assert whoami["revision"] == seen.revision
    assert whoami["client"] in ("official", "typed")
    assert seen.all.get("revision", seen.revision) == seen.revision


def test_the_client_knows_the_server(seen: Seen) -> None:
    """The Python client does not ask who the server is when it is pinned to the newest revision."""
    if seen.pinned:
        assert seen["server"] is None
        return
    assert (seen["server"]["name"], seen["server"]["version"]) == ("joint", "3.2.1")
    assert seen["instructions"] == "Ask away."
    changing = {"listChanged": True}
    for feature in ("tools", "prompts"):
        assert seen["capabilities"][feature] == changing
    assert seen["capabilities"]["resources"] == {**changing, "subscribe": True}
    assert seen["capabilities"]["extensions"] == {"x.test/colours": {"shades": 3}}
    assert seen["capabilities"]["experimental"] == {"x.test/try": {}}
    assert ("title" in seen["server"]) == (seen.revision >= "2025-06-18")
    assert ("icons" in seen["server"]) == (seen.revision >= "2025-11-25")


def test_lists_arrive_over_all_their_pages(seen: Seen) -> None:
    """The server gives six items a page; version 2 of the TypeScript client joins the pages by itself."""
    names = [tool["name"] for tool in seen["tools"]["items"]]
    assert len(names) == len(set(names)) == 17
    assert seen["tools"].get("sizes", [6, 6, 5]) == [6, 6, 5]
    assert seen["bad cursor"]["code"] == -32602
    assert [item["uri"] for item in seen["resources"]["items"]] == ["note://static", "note://bytes"]
    assert [item["uriTemplate"] for item in seen["resource_templates"]["items"]] == ["note://{topic}/{page}"]
    review, chat = seen["prompts"]["items"]
    assert [argument["name"] for argument in review["arguments"]] == ["code", "language"]
    assert chat["name"] == "chat"


def test_tools_show_what_the_revision_knows(seen: Seen) -> None:
    add = seen["tools"]["items"][0]
    assert add["description"] == "Add two numbers."
    assert add["inputSchema"]["properties"]["a"] == {"type": "integer", "description": "The first."}
    assert ("annotations" in add) == (seen.revision >= "2025-03-26")
    assert ("title" in add) == (seen.revision >= "2025-06-18")
    assert ("icons" in add) == (seen.revision >= "2025-11-25")
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    wrapped |= {"x-fastmcp-wrap-result": True}
    if seen.revision < "2025-06-18":
        assert "outputSchema" not in add
    else:
        assert add["outputSchema"] == ({"type": "integer"} if seen.modern else wrapped)


@pytest.mark.parametrize(("tool", "value"), DATA)
def test_data_arrives_in_the_form_of_the_revision(seen: Seen, tool: str, value: Any) -> None:
    """These clients check it against the output schema, too."""
    result = seen[f"call {tool}"]
    [text] = result["content"]
    assert text["text"] == value if isinstance(value, str) else json.loads(text["text"]) == value
    if seen.revision < "2025-06-18":
        assert "structuredContent" not in result
    else:
        bare = seen.modern or isinstance(value, dict)
        assert result["structuredContent"] == (value if bare else {"result": value})


def test_every_kind_of_content_arrives_in_a_form_that_the_revision_knows(seen: Seen) -> None:
    kinds = [block["type"] for block in seen["call blocks"]["content"]]
    audio = "audio" if seen.revision >= "2025-03-26" else "resource"
    link = "resource_link" if seen.revision >= "2025-06-18" else "text"
    assert kinds == ["text", "image", audio, link, "resource", "resource"]
    _, image, _, _, text, blob = seen["call blocks"]["content"]
    assert (image["data"], image["mimeType"]) == ("iVBORw==", "image/png")
    assert text["resource"] == {"uri": "note://inside", "text": "inside", "mimeType": "text/plain"}
    assert blob["resource"]["blob"] == "AAEC"


def test_failing_tools_are_results_and_unknown_ones_are_errors(seen: Seen) -> None:
    assert seen["call fail"]["isError"] is True
    assert seen["call fail"]["content"][0]["text"] == "no such luck"
    assert "division by zero" in seen["call crash"]["content"][0]["text"]
    assert "Traceback" not in seen["call crash"]["content"][0]["text"]
    assert seen["call missing"]["code"] == -32602
    assert seen["call nothing"].get("isError", False) is False
    assert seen["call nothing"]["content"] == []


def test_wrong_arguments_are_an_error_before_and_a_hint_since_2025_11_25(seen: Seen) -> None:
    answer = seen["call add wrongly"]
    if seen.revision < "2025-11-25":
        assert answer["code"] == -32602
    else:
        assert answer["isError"] is True
        assert 'a: must be of type integer, not the string "one"' in answer["content"][0]["text"]


def test_resources_are_read(seen: Seen) -> None:
    """Version 2 of the TypeScript client shows −32002 as −32602."""
    assert seen["read note://static"]["contents"] == [
        {"uri": "note://static", "text": "# note", "mimeType": "text/markdown"}
    ]
    assert seen["read note://bytes"]["contents"][0]["blob"] == "AAEC"
    assert seen["read note://soup/4"]["contents"][0]["text"] == "soup, page 4"
    shown = -32602 if seen.modern or seen.program == "typescript 2" else -32002
    assert seen["read note://gone"] == {"code": shown, "data": {"uri": "note://gone"}}


def test_prompts_are_filled_in(seen: Seen) -> None:
    [message] = seen["prompt review"]["messages"]
    assert message["content"] == {"type": "text", "text": "Review this python: x = 1"}
    assert [message["role"] for message in seen["prompt chat"]["messages"]] == ["user", "assistant"]
    assert seen["prompt review incompletely"]["code"] == -32602
    assert seen["prompt missing"]["code"] == -32602


def test_progress_arrives_in_order(seen: Seen) -> None:
    """The TypeScript clients drop progress that they read in one go with the result, here most of it.

    That they get it at all shows in the next test, where the call is given up when its progress arrives.
    """
    messages = [None] * 3 if seen.revision == HANDSHAKE[0] else ["step 1", "step 2", "step 3"]
    sent = [[number + 1, 3, messages[number]] for number in range(3)]
    heard = seen["progress"]["seen"]
    assert heard == (sent[: len(heard)] if seen.program.startswith("typescript") else sent)
    assert seen["progress"]["result"]["content"][0]["text"] == "counted"


def test_calls_that_are_given_up_are_stopped(seen: Seen) -> None:
    """Version 1 of the Python client tells the server nothing, which the specification says it should."""
    if seen.program == "python 1":
        assert "give up" not in seen.all
        return
    assert seen["give up"]["timed out"]["code"] in (-32001, "REQUEST_TIMEOUT")
    assert seen["give up"]["left"]["running"] == []
    assert "caller" in seen["give up"]["left"]["given_up"]


def test_calls_at_once_get_their_own_answers(seen: Seen) -> None:
    assert seen["at once"] == [str(2 * number) for number in range(20)]


def test_words_are_completed(seen: Seen) -> None:
    assert seen["completion"] == ["pascal", "perl", "python"]


def test_what_is_logged_arrives(seen: Seen) -> None:
    assert seen["logs"] == [["info", {"message": "told"}]]


def test_a_change_of_a_resource_is_heard(seen: Seen) -> None:
    assert seen["update"] == "note://static"


def test_changes_of_the_lists_are_heard(seen: Seen) -> None:
    events = ["PromptsListChanged", "ResourcesListChanged", "ToolsListChanged"]
    methods = [f"notifications/{kind}/list_changed" for kind in ("prompts", "resources", "tools")]
    assert seen["changes"] == (events if seen.modern and seen.program == "python 2" else methods)
    assert seen["grown"] == "grown_a"


def test_results_carry_their_type_and_cache_hints_on_the_newest_revision_only(seen: Seen) -> None:
    """The TypeScript client keeps the result type to itself."""
    read = seen["read note://static"]
    assert ("ttlMs" in read, "cacheScope" in read) == (seen.modern, seen.modern)
    if seen.program.startswith("python"):
        assert read.get("resultType") == ("complete" if seen.modern else None)


@pytest.mark.parametrize("program", ["python 2", "typescript 2"])
def test_a_handshake_with_a_server_of_the_newest_revision_only_is_refused(program: str) -> None:
    assert tour(program, "legacy", (ENVELOPE,))["refused"] == [-32022]
