"""A part of the pass-through matrix, with real clients and servers; `make gateway-matrix` runs all of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import dovetail
from dovetail import Client
from dovetail.client.elicitation import Elicitation
from tests.gateway import matrix
from tests.gateway.matrix import CLIENTS, FEATURES, SERVERS, Cell, Gateway, Setting, Table, gateway, judge, run_client
from tests.interop.peers import ENVELOPE, HANDSHAKE, everything_command

SERVED = ("py2", f"ours-{HANDSHAKE[0]}")
"""A server of the newest era, and one of the first revision."""

EACH_CLIENT = ("python1", "python2-modern", "typescript1", "typescript2-modern", f"ours-{ENVELOPE}")


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with gateway([*SERVED, "everything"]) as started:
        yield started


def assert_nothing_is_lost(cells: Table) -> None:
    assert {key: cell.detail for key, cell in cells.items() if cell.failed} == {}
    assert [cell.word for cell in cells.values()].count("yes") > len(cells) / 2


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", EACH_CLIENT)
def test_every_feature_passes_or_is_refused_by_name(running: Gateway, name: str) -> None:
    cells = run_client(running, name, SERVED)
    assert len(cells) == len(SERVED) * len(FEATURES)
    assert_nothing_is_lost(cells)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", ["python2-legacy", "python2-modern"])
def test_every_feature_of_server_everything_passes_on_both_eras(running: Gateway, name: str) -> None:
    assert_nothing_is_lost(run_client(running, name, ["everything"]))


@pytest.mark.interop
@pytest.mark.slow
def test_a_gateway_over_stdio_passes_the_same() -> None:
    with gateway(SERVED, http=False) as own:
        assert_nothing_is_lost(run_client(own, "python1-stdio", SERVED))


async def fill(question: Elicitation) -> dict[str, str]:
    return {"name": "Ann"}


ANSWERS: dict[str, Any] = {"on_elicit": fill, "on_sample": lambda params: "Hi", "roots": ["/srv"]}


@pytest.mark.interop
def test_server_everything_shows_19_tools_without_a_gateway() -> None:
    """With one, the check of the feature `tools` wants the same on both eras."""
    with Client.blocking(everything_command(), timeout=50, **ANSWERS) as client:
        names = {tool.name for tool in client.tools()}
    assert len(names) == 19
    assert names == matrix.EVERYTHING_TOOLS


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", [f"ours-{HANDSHAKE[-1]}", f"ours-{ENVELOPE}"])
def test_server_everything_shows_all_its_tools_through_the_gateway(running: Gateway, name: str) -> None:
    seen = matrix.probe(running, name, ["everything"], ["tools"])
    assert set(seen["servers"]["everything"]["tools"]["value"]["listed"]) == matrix.EVERYTHING_TOOLS


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("revision", [HANDSHAKE[-1], ENVELOPE])
async def test_a_question_that_a_server_sends_as_a_task_is_an_ordinary_one_for_the_client(revision: str) -> None:
    """The gateway keeps the task, so that the server shows the tools that need it to clients without such tasks."""
    gate = dovetail.Gateway({"everything": everything_command()})
    try:
        async with Client(gate, revision=revision, timeout=50, **ANSWERS) as client:
            filled = await client.call("everything__trigger-elicitation-request-async")
            assert "- Name: Ann" in filled.text
            sampled = await client.call("everything__trigger-sampling-request-async", prompt="Hello")
            assert '"text": "Hi"' in sampled.text
    finally:
        await gate.close()


NOTES = SERVERS[f"ours-{HANDSHAKE[-1]}"]
OLD = SERVERS[f"ours-{HANDSHAKE[0]}"]
CLIENT = CLIENTS[f"ours-{ENVELOPE}"]


@pytest.mark.parametrize(
    ("feature", "server", "seen", "word"),
    [
        ("subscriptions", NOTES, {"value": "heard"}, "yes"),
        ("subscriptions", NOTES, {"silent": "nothing within 20 s"}, "FAILED"),
        ("subscriptions", NOTES, {"refused": "The server offers no subscriptions"}, "FAILED"),
        ("subscriptions", SERVERS["py1"], {"refused": "The server offers no subscriptions"}, "refused"),
        ("progress", NOTES, {"value": [[1, 3], [3, 3]]}, "FAILED"),
        ("list changes", NOTES, {"value": []}, "FAILED"),
        ("elicitation form", NOTES, {"value": {"blocks": ["text accept Ann"], "error": False, "asked": []}}, "FAILED"),
        ("elicitation form", NOTES, {"refused": "does not support elicitation"}, "FAILED"),
        ("elicitation form", OLD, {"refused": "does not support elicitation"}, f"not in {HANDSHAKE[0]}"),
        ("elicitation form", OLD, {"value": {"blocks": ["text "], "error": False, "asked": []}}, "FAILED"),
        ("structured results", OLD, {"value": {"blocks": ['text {"x":1,"y":0.5}']}}, f"not in {HANDSHAKE[0]}"),
        ("structured results", OLD, {"value": {"blocks": []}}, "FAILED"),
        ("structured results", NOTES, {"value": {"blocks": ['text {"x":1,"y":0.5}']}}, "FAILED"),
        ("content types", NOTES, {"value": {"blocks": ["text words"], "behind links": []}}, "FAILED"),
        ("tools", NOTES, {"value": {"listed": ["add"], "blocks": ["text 3"]}}, "FAILED"),
        ("tasks", NOTES, {"value": {"status": "plain", "blocks": ["text movie of sea"], "error": False}}, "FAILED"),
        ("tasks", NOTES, {"value": {"status": "completed", "blocks": ["text movie of sea"], "error": False}}, "yes"),
        ("sampling", NOTES, {"refused": "Internal error"}, "FAILED"),
        ("elicitation form", OLD, {"refused": "Internal error"}, "FAILED"),
    ],
)
def test_a_cell_says_what_was_seen(feature: str, server: Any, seen: dict[str, Any], word: str) -> None:
    """What is lost without a word, refused without being expected, or not what the server sent, is a failure."""
    cell = judge(Setting(feature, CLIENT, server), seen)
    assert isinstance(cell, Cell)
    assert cell.word == word


def test_the_page_is_written_for_the_whole_matrix_only() -> None:
    command = [sys.executable, "-m", "tests.gateway.matrix", "--write", "--clients", "python1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=matrix.ROOT, check=False)
    assert done.returncode == 2
    assert "--write is for the whole matrix" in done.stderr


def test_the_page_has_a_table_for_every_client_and_no_failure() -> None:
    page = matrix.PAGE.read_text(encoding="utf-8")
    for client in CLIENTS.values():
        assert f"\n## {client.title}\n" in page
    for server in SERVERS.values():
        assert f" {server.title} |" in page
    assert "FAILED" not in page
