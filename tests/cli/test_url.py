"""A URL as the target of a command: what it finds, and how it fails."""

from pathlib import Path

import pytest

from tests.cli.invoke import DESK, dovetail
from tests.support.http import free_port
from tests.support.http_process import HttpProcess

PRIVATE = """
from dovetail import Context, Server
server = Server("private", auth={"sesame": "ali"}.get)

@server.tool
def who(ctx: Context) -> str:
    return ctx.principal or "nobody"
"""


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory):
    path: Path = tmp_path_factory.mktemp("private") / "private.py"
    path.write_text(PRIVATE)
    with HttpProcess(path) as server:
        yield f"{server.url}/mcp"


def test_a_url_is_a_target_like_any_other() -> None:
    with HttpProcess(DESK) as server:
        listed = dovetail("list", f"{server.url}/mcp", "--format", "json")
        assert listed.result["tools"] == dovetail("list", DESK, "--format", "json").result["tools"]


def test_a_token_comes_from_the_environment(private: str) -> None:
    done = dovetail("call", private, "who", "--token-env", "SECRET", SECRET="sesame")
    assert (done.code, done.out) == (0, "ali\n")


def test_a_header_is_sent_with_every_request(private: str) -> None:
    done = dovetail("call", private, "who", "--header", "Authorization=Bearer sesame")
    assert (done.code, done.out) == (0, "ali\n")


def test_without_a_token_the_exit_code_says_that_it_is_about_that(private: str) -> None:
    done = dovetail("call", private, "who", "--format", "json")
    assert (done.code, done.error["code"]) == (3, "unauthorized")


def test_a_variable_that_is_not_there_is_said_before_anybody_is_asked(private: str) -> None:
    done = dovetail("call", private, "who", "--token-env", "NO_SUCH_SECRET")
    assert done.code == 1
    assert "NO_SUCH_SECRET" in done.err


def test_an_unreachable_url_has_its_own_exit_code() -> None:
    done = dovetail("ping", f"http://127.0.0.1:{free_port()}/mcp", "--format", "json")
    assert (done.code, done.error["code"]) == (4, "unreachable")


def test_another_path_than_the_endpoints(private: str) -> None:
    done = dovetail("ping", private.replace("/mcp", "/elsewhere"), "--token-env", "SECRET", SECRET="sesame")
    assert done.code == 4
    assert "404" in done.err and "check the path" in done.err
