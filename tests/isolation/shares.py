"""Subjects of isolation: a client that uses up its share (eve) leaves the shares of others (ann) as they are."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from tests.isolation.isolated_server import BURST, MAX_CONNECTIONS, MAX_SESSIONS, MAX_STREAMS
from tests.isolation.isolation_setup import MANY, UPGRADE, Place, admitted, text_of
from tests.support.http_process import Answer
from tests.support.raw import HANDSHAKE, eventually

TOO_MANY_REQUESTS = 429
COMPLETIONS = 60
BLOCKING_CALLS = 60
SHARE = 32
"""Threads that one tool of one client gets."""


def session_limit(place: Place) -> None:
    """Sessions."""

    def begin(name: str) -> Answer:
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
        caller = place.caller(name, session="-")
        caller.session = ""
        return caller.ask("initialize", params)

    held = use_up(place, MAX_SESSIONS, lambda: begin("eve"))
    assert admitted(begin("ann"))
    for answer in held:
        place.caller("eve", session=answer.header("mcp-session-id")).delete().close()


def connection_limit(place: Place) -> None:
    """WebSockets and connections of HTTP+SSE, which are counted together."""

    def websocket(name: str) -> Answer:
        return place.modern(name).get("/mcp/ws", **UPGRADE)

    def legacy_stream(name: str) -> Answer:
        return place.modern(name).get("/sse")

    for connect, name in ((websocket, "eve"), (legacy_stream, "bob")):
        held = use_up(place, MAX_CONNECTIONS, functools.partial(connect, name))
        for other in (websocket, legacy_stream):
            mine = other("ann")
            assert admitted(mine)
            mine.close()
        close(held)


def stream_limit(place: Place) -> None:
    """Subscriptions and streams of sessions, which are counted together."""

    def listen(name: str) -> Answer:
        return place.modern(name).ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})

    held = use_up(place, MAX_STREAMS, lambda: listen("eve"))
    for mine in (listen("ann"), place.caller("ann").stream()):
        assert admitted(mine)
        mine.close()
    close(held)


def rate_limit(place: Place) -> None:
    """Requests of a method with a rate limit."""

    def get_prompt(name: str) -> bool:
        return not over_limit(place.modern(name).ask("prompts/get", {"name": "about", "arguments": {"topic": "tea"}}))

    while_allowed(place, BURST, lambda: get_prompt("eve"))
    assert get_prompt("ann")


def completion_limit(place: Place) -> None:
    """Completions."""
    params = {"ref": {"type": "ref/prompt", "name": "about"}, "argument": {"name": "topic", "value": "t"}}

    def complete(name: str) -> bool:
        return not over_limit(place.modern(name).ask("completion/complete", params))

    while_allowed(place, COMPLETIONS, lambda: complete("eve"))
    assert complete("ann")


def threads(place: Place) -> None:
    """Threads: plain functions that block do not keep another client's plain function waiting."""
    flag = place.folder / "go"
    eve, ann = place.modern("eve"), place.modern("ann")
    held = [begin_call(place, "block", flag=str(flag)) for _ in range(BLOCKING_CALLS * place.configuration.workers)]
    counts: dict[str, int] = {}

    def all_blocked() -> bool:
        for _ in range(MANY):
            process, count = text_of(ann.call("count_blocked", flag=str(flag))).split()
            counts[process] = int(count)
        return len(counts) == place.configuration.workers and min(counts.values()) >= SHARE

    try:
        eventually(all_blocked, "the calls have taken their share of threads")
        assert [text_of(ann.call("quick")) for _ in range(MANY)] == ["quick"] * MANY
        assert [text_of(eve.call("quick")) for _ in range(MANY)] == ["quick"] * MANY, "another tool of the same client"
    finally:
        flag.touch()
        for connection in held:
            connection.drop()


def begin_call(place: Place, tool: str, **arguments: Any) -> Any:
    """Send a call and do not wait for the answer."""
    eve = place.modern("eve")
    message = eve.message("tools/call", {"name": tool, "arguments": arguments})
    connection = place.server.connect(eve.source)
    connection.request("POST", place.server.path, json.dumps(message), eve.headers("tools/call", tool))
    return connection


def use_up(place: Place, each: int, take: Callable[[], Answer]) -> list[Answer]:
    """What a client gets until it is refused; every worker counts for itself."""
    held: list[Answer] = []
    for _ in range(each * place.configuration.workers + 1):
        answer = take()
        if not admitted(answer):
            answer.close()
            assert len(held) >= each
            return held
        held.append(answer)
    raise AssertionError(f"one client got {len(held)}, and no end")


def while_allowed(place: Place, burst: int, ask: Callable[[], bool]) -> None:
    """Ask until it is refused; every worker counts for itself."""
    for _ in range(burst * place.configuration.workers + 1):
        if not ask():
            return
    raise AssertionError("there is no limit")


def over_limit(answer: Answer) -> bool:
    message = answer.messages()[-1]
    return message.get("error", {}).get("code") == TOO_MANY_REQUESTS


def close(held: list[Answer]) -> None:
    for answer in held:
        answer.close()
