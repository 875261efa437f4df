"""The clients of the official SDKs with our server over HTTP: both eras, and the old transport with two endpoints.

Each makes the tour of `test_their_clients.py`, and what it saw must stand all checks that are there.
"""

import inspect
from typing import Any

import pytest

from tests.interop import test_questions, test_their_clients
from tests.interop.peers import ENVELOPE, HANDSHAKE, NEWEST_OF_ERAS, PROGRAMS
from tests.interop.test_their_clients import printed
from tests.support.http import serving_program

pytestmark = pytest.mark.interop

# Who asks how and where, which revisions the server has (all if none is named), and the one that they agree on.
TOURS = [
    ("python 2", "legacy", "/mcp", (), HANDSHAKE[-1]),
    ("python 2", "legacy", "/mcp", HANDSHAKE[1:2], HANDSHAKE[1]),
    ("python 2", "legacy", "/sse", (), HANDSHAKE[-1]),
    ("python 2", "auto", "/mcp", (), ENVELOPE),
    ("python 2", "auto", "/mcp", HANDSHAKE[:3], HANDSHAKE[2]),
    ("python 1", "", "/mcp", (), HANDSHAKE[-1]),
    ("python 1", "", "/sse", HANDSHAKE[:1], HANDSHAKE[0]),
    ("typescript 2", "legacy", "/mcp", (), HANDSHAKE[-1]),
    ("typescript 2", ENVELOPE, "/mcp", (), ENVELOPE),
    ("typescript 2", "auto", "/mcp", HANDSHAKE[:3], HANDSHAKE[2]),
    ("typescript 1", "", "/mcp", (), HANDSHAKE[-1]),
    ("typescript 1", "", "/sse", HANDSHAKE[:1], HANDSHAKE[0]),
]


def checks(module: Any, fixture: str) -> list[Any]:
    """The tests of a module that look at one thing only."""
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    return [test for test in tests if list(inspect.signature(test).parameters) == [fixture]]


@pytest.mark.parametrize(
    ("program", "mode", "path", "served", "revision"),
    TOURS,
    ids=[f"{way[0]} {way[1] or 'initialize'} {way[2][1:]} on {way[4]}".replace(" ", "-") for way in TOURS],
)
def test_other_clients_use_every_feature(
    program: str, mode: str, path: str, served: tuple[str, ...], revision: str
) -> None:
    with serving_program(PROGRAMS / "dovetail_server.py", "--http", *served) as server:
        saw = printed([*test_their_clients.PROGRAMS[program](mode), server.url + path])
        assert server.stderr.count("Traceback") == 1  # of the tool that crashes
    seen = test_their_clients.Seen(program, mode, revision, saw)
    for check in checks(test_their_clients, "seen"):
        check(seen)
    for tool, value in test_their_clients.DATA:
        test_their_clients.test_data_arrives_in_the_form_of_the_revision(seen, tool, value)


@pytest.mark.parametrize("program", ["python 2", "typescript 2"])
def test_a_handshake_with_a_server_of_the_newest_revision_only_is_refused(program: str) -> None:
    with serving_program(PROGRAMS / "dovetail_server.py", "--http", ENVELOPE) as server:
        saw = printed([*test_their_clients.PROGRAMS[program]("legacy"), f"{server.url}/mcp"])
    if program == "python 2":
        assert saw["refused"] == [-32022]
    else:
        assert '"code":-32022' in saw["message"].replace(" ", "")  # it shows the body of an answer with status 400


@pytest.mark.parametrize(
    ("program", "revision", "path"),
    [
        *[(program, revision, "/mcp") for program in test_questions.PROGRAMS for revision in NEWEST_OF_ERAS],
        ("python", HANDSHAKE[-1], "/sse"),
    ],
)
def test_they_answer_what_our_handlers_ask(program: str, revision: str, path: str) -> None:
    with serving_program(PROGRAMS / "dovetail_asking.py") as server:
        mode = revision if revision == ENVELOPE else "legacy"
        got = printed([*test_questions.PROGRAMS[program](), mode, server.url + path])
        assert "Traceback" not in server.stderr
    assert got["revision"] == revision
    for check in checks(test_questions, "got"):
        check(got)
