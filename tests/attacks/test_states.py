"""Attacks on the sealed state that a client carries between the rounds of a call, and on cursors."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dovetail.protocol.errors import INVALID_PARAMS
from tests.support.http_process import HttpProcess
from tests.support.raw import ENVELOPE

SERVER = Path(__file__).parent / "servers" / "paying.py"
KEY = "a key that replicas share"
CALL = {
    "name": "buy",
    "arguments": {},
    "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}},
}


@pytest.fixture
def payments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "payments"
    file.touch()
    monkeypatch.setenv("PAYMENTS", str(file))
    return file


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_KEYS", KEY)


def begin(server: HttpProcess) -> dict[str, Any]:
    """The retry with an answer, as often as one likes."""
    [asked] = server.client(ENVELOPE).ask("tools/call", CALL).messages()
    answers = {id: {"action": "accept", "content": {"value": True}} for id in asked["result"]["inputRequests"]}
    return {**CALL, "requestState": asked["result"]["requestState"], "inputResponses": answers}


def send(server: HttpProcess, retry: dict[str, Any]) -> bool:
    """True if the retry was accepted; else it was refused because of its state."""
    [answer] = server.client(ENVELOPE).ask("tools/call", retry).messages()
    if "error" in answer:
        assert answer["error"]["code"] == INVALID_PARAMS, answer
        return False
    assert answer["result"]["content"][0]["text"] == "paid"
    return True


@pytest.mark.attack("H2")
@pytest.mark.parametrize("with_keys", [False, True], ids=["random key", "state_keys"])
def test_a_state_is_accepted_once_by_all_workers(
    payments: Path, monkeypatch: pytest.MonkeyPatch, with_keys: bool
) -> None:
    if with_keys:
        monkeypatch.setenv("STATE_KEYS", KEY)
    with HttpProcess(SERVER, "--workers", "4") as server, ThreadPoolExecutor(8) as pool:
        retry = begin(server)
        assert sum(pool.map(lambda _: send(server, retry), range(40))) == 1
        assert payments.read_text() == "paid\n"
        assert send(server, begin(server))
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert server.complaints == []


@pytest.mark.attack("H2")
@pytest.mark.usefixtures("keys")
def test_a_state_is_not_accepted_again_after_a_restart(payments: Path) -> None:
    with HttpProcess(SERVER) as server:
        retry = begin(server)
        assert send(server, retry)
        warned = server.stderr
    with HttpProcess(SERVER) as server:
        assert not send(server, retry)
    assert payments.read_text() == "paid\n"
    assert "was given sealing keys but no store" in warned


@pytest.mark.attack("H2")
@pytest.mark.usefixtures("keys")
def test_a_store_carries_a_round_over_a_restart_and_still_accepts_its_state_once(
    payments: Path, tmp_path: Path
) -> None:
    store = "--store", str(tmp_path / "store.db")
    with HttpProcess(SERVER, *store) as server:
        unused, used = begin(server), begin(server)
        assert send(server, used)
        assert server.complaints == []
    with HttpProcess(SERVER, *store) as server:
        assert [send(server, retry) for retry in (used, unused, unused)] == [False, True, False]
    assert payments.read_text() == "paid\n" * 2


@pytest.mark.attack("M12")
@pytest.mark.usefixtures("keys", "payments")
def test_a_cursor_is_valid_in_every_process_with_the_same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpProcess(SERVER) as first, HttpProcess(SERVER) as second:
        [page] = first.client(ENVELOPE).ask("tools/list").messages()
        cursor = {"cursor": page["result"]["nextCursor"]}
        [following] = second.client(ENVELOPE).ask("tools/list", cursor).messages()
        assert [tool["name"] for tool in following["result"]["tools"]] == ["pay_1", "pay_2"]
        monkeypatch.setenv("STATE_KEYS", "another key of another server")
        with HttpProcess(SERVER) as stranger:
            [refused] = stranger.client(ENVELOPE).ask("tools/list", cursor).messages()
            assert refused["error"]["code"] == INVALID_PARAMS
