"""The clients of the official SDKs answer what our server asks, on both eras.

`test_their_questions.py` has the other direction.
"""

import functools
import json
import sys
from typing import Any

import pytest

from tests.interop.peers import ENVELOPE, NEWEST_OF_ERAS, node_program, python_program
from tests.interop.test_their_clients import printed
from tests.matrix import eliciting_server

pytestmark = pytest.mark.interop

PROGRAMS = {
    "python": lambda: python_program("mcp", "mcp_answers.py"),
    "typescript": lambda: node_program("typescript_answers.mjs"),
}


@functools.cache
def answers(program: str, revision: str) -> dict[str, Any]:
    mode = revision if revision == ENVELOPE else "legacy"
    return printed([*PROGRAMS[program](), mode, sys.executable, str(eliciting_server.__file__)])


@pytest.fixture(params=[(program, revision) for program in PROGRAMS for revision in NEWEST_OF_ERAS])
def got(request: pytest.FixtureRequest) -> dict[str, Any]:
    found = answers(*request.param)
    assert found["revision"] == request.param[1]
    return found


def text(got: dict[str, Any], tool: str) -> str:
    assert not got[tool].get("error")
    [block] = got[tool]["text"]
    return block


def test_forms_are_answered(got: dict[str, Any]) -> None:
    assert json.loads(text(got, "order")) == {"amount": 3, "colour": "GREEN", "wrapped": True, "note": None}
    assert json.loads(text(got, "chain")) == [4, 8, 5, 1]
    assert text(got, "by_hand") == "{'value': True} my state"


def test_sampling_and_roots_are_answered(got: dict[str, Any]) -> None:
    assert text(got, "sample") == "2 messages, Be brief by m"
    assert json.loads(text(got, "roots")) == ["file:///srv"]
    assert json.loads(text(got, "together")) == [True, "2 messages, Be brief by m", 1]


def test_url_elicitation_is_answered(got: dict[str, Any]) -> None:
    assert text(got, "page") == "accept"
    if got["revision"] == ENVELOPE:
        assert text(got, "behind_page") == "hello ann"
    else:
        page = {"mode": "url", "message": "Sign in", "url": "https://in.example", "elicitationId": "ann"}
        assert got["behind_page"] == {"code": -32042, "data": {"elicitations": [page]}}


def test_prompts_and_resources_may_elicit(got: dict[str, Any]) -> None:
    assert (got["greet"], got["note"]) == ("Dear Ann", "sea: blue")


def test_no_question_is_asked_twice(got: dict[str, Any]) -> None:
    wanted = ["What will it be?", "First?", "8?", "Yes?", "Sure?", "Pay here"]
    wanted += ["Sign in"] if got["revision"] == ENVELOPE else []
    assert got["asked"] == [*wanted, "Who?", "Say?"]
