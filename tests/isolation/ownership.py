"""Subjects of isolation: what belongs to one principal is out of reach of another."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from dovetail import Client
from tests.isolation.isolated_server import PUBLIC, SECRET
from tests.isolation.isolation_setup import MANY, Place, error_of, text_of
from tests.support.http_process import Answer, HttpCaller
from tests.support.raw import PATIENCE

FOLDER = "files:///"
UPDATED = "notifications/resources/updated"
ELICITS = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


def sessions(place: Place) -> None:
    """A session serves only the principal that began it."""
    ann, bob = place.caller("ann"), place.caller("bob")
    thief = place.caller("bob", session=ann.session)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    for _ in range(MANY // 4):
        answers = (thief.call("who"), thief.stream(), thief.post(cancelled), thief.delete())
        assert [answer.status for answer in answers] == [404] * 4
        assert (text_of(ann.call("who"))[:3], text_of(bob.call("who"))[:3]) == ("ann", "bob")


def streams(place: Place) -> None:
    """A stream is resumed only by the principal whose session it belongs to."""
    ann, bob = place.caller("ann"), place.caller("bob")
    stream = ann.call("log", text="of ann")
    while not (line := stream.line()).startswith(b"id:"):
        assert line
    event = line.removeprefix(b"id:").strip().decode()
    thief = place.caller("bob", session=ann.session)
    for _ in range(MANY // 4):
        assert thief.stream(**{"last-event-id": event}).status == 404
        assert bob.stream(**{"last-event-id": event}).status == 400
    resumed = ann.stream(**{"last-event-id": event})
    assert resumed.status == 200
    for answer in (stream, resumed):
        answer.close()


def questions(place: Place) -> None:
    """An elicitation is answered only by the client that was asked."""
    ann, bob = place.caller("ann", elicits=True), place.caller("bob", elicits=True)
    call = ann.call("greet")
    asked = call.message()
    assert asked["method"] == "elicitation/create"
    accepted = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}
    bob.post(accepted).close()
    assert place.caller("bob", session=ann.session).post(accepted).status == 404
    ann.post({**accepted, "result": {"action": "decline"}}).close()
    assert text_of(call) == "ann False"


def states(place: Place) -> None:
    """A sealed state is accepted from the principal that it was given to, and once, whichever worker is asked."""
    ann, bob = place.modern("ann"), place.modern("bob")
    params: dict[str, Any] = {"name": "greet", "arguments": {}, "_meta": ELICITS}
    asked = ann.ask("tools/call", params).messages()[-1]["result"]
    (key,) = asked["inputRequests"]
    answered = {**params, "requestState": asked["requestState"]}
    answered["inputResponses"] = {key: {"action": "accept", "content": {}}}
    for _ in range(MANY // 2):
        assert error_of(bob.ask("tools/call", answered))["code"] == -32602
    assert text_of(ann.ask("tools/call", answered)) == "ann True"
    for _ in range(MANY // 2):
        assert error_of(ann.ask("tools/call", answered))["code"] == -32602


def subscriptions(place: Place) -> None:
    """A principal subscribes only to what it sees, and ends only subscriptions of its own."""
    ann, bob = place.caller("ann"), place.caller("bob")
    subscribe(ann, SECRET)
    assert "error" in bob.ask("resources/subscribe", {"uri": SECRET}).messages()[-1]
    bob.ask("resources/unsubscribe", {"uri": SECRET}).close()
    stream = ann.stream()
    ann.call("touch").close()
    assert updated(stream) == SECRET
    stream.close()
    wanted = {"notifications": {"resourceSubscriptions": [SECRET, PUBLIC]}}
    for caller, uris in ((place.modern("ann"), [SECRET, PUBLIC]), (place.modern("bob"), [PUBLIC])):
        listening = caller.ask("subscriptions/listen", wanted)
        assert listening.message()["params"]["notifications"] == {"resourceSubscriptions": uris}
        listening.close()


def updates(place: Place) -> None:
    """A subscriber to a folder is told of those resources in it that it sees: the secret one is updated first."""
    for name, first in (("ann", SECRET), ("bob", PUBLIC)):
        caller = place.caller(name)
        subscribe(caller, FOLDER)
        stream = caller.stream()
        caller.call("touch").close()  # reaches the worker that holds the session
        assert updated(stream) == first
        stream.close()
        modern = place.modern(name)
        listening = modern.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": [FOLDER]}})
        assert "acknowledged" in listening.message()["method"]
        for _ in range(MANY):
            modern.call("touch").close()  # reaches every worker, and so the one that has the subscription
        assert updated(listening) == first
        listening.close()


def server_caches(place: Place) -> None:
    """A list that was made for one principal is never given to another."""
    for _ in range(MANY // 4):
        for make in (place.caller, place.modern):
            assert {name for name in tools(make("ann")) if "secret" in name} == {"secret_first", "secret_second"}
            assert not [name for name in tools(make("bob")) if "secret" in name]
        page = place.modern("ann").ask("tools/list").messages()[-1]["result"]
        assert page["cacheScope"] == "private"


def client_caches(place: Place) -> None:
    """Clients with different tokens in one program do not share what they have read."""

    async def both() -> None:
        url = place.server.url + place.server.path
        for _ in range(MANY // 4):
            async with Client(url, auth="ann") as ann, Client(url, auth="bob") as bob:
                for client, sees in ((ann, True), (bob, False), (ann, True)):
                    assert any(tool.name == "secret_first" for tool in await client.tools()) is sees
                    assert any(item.uri == SECRET for item in await client.resources()) is sees

    asyncio.run(both())


def cursors(place: Place) -> None:
    """A cursor continues the list of whoever uses it, on any worker."""
    for make in (place.caller, place.modern):
        ann, bob = make("ann"), make("bob")
        cursor = ann.ask("tools/list").messages()[-1]["result"]["nextCursor"]
        for _ in range(MANY // 2):
            assert "result" in ann.ask("tools/list", {"cursor": cursor}).messages()[-1]
            taken = bob.ask("tools/list", {"cursor": cursor}).messages()[-1]
            assert not any("secret" in tool["name"] for tool in taken.get("result", {}).get("tools", ()))


def logs(place: Place) -> None:
    """The log messages of a call reach its client only, at the level that this client has set."""
    ann, bob = place.caller("ann"), place.caller("bob")
    bob.ask("logging/setLevel", {"level": "emergency"}).close()
    subscribe(bob, PUBLIC)
    stream = bob.stream()
    heard = ann.call("log", text="of ann").messages()
    assert [message["params"]["data"]["message"] for message in heard if "method" in message] == ["of ann"]
    wait_until_silent(bob)
    heard = ann.call("log", text="of ann").messages()
    assert [message["params"]["data"]["message"] for message in heard if "method" in message] == ["of ann"]
    bob.call("touch").close()
    assert stream.message()["method"] == UPDATED, "nothing came before it"
    stream.close()


def wait_until_silent(caller: HttpCaller) -> None:
    """Wait until each worker knows that a client wants no log messages; until then it may get those of its own calls.

    A worker that is kept from running hears later of a level that another one has acknowledged.
    """
    ends, silent = time.monotonic() + PATIENCE, 0
    while silent < MANY:
        heard = [message for message in caller.call("log", text="of bob").messages() if "method" in message]
        assert all(message["params"]["data"]["message"] == "of bob" for message in heard)
        assert time.monotonic() < ends, "the level that the client has set counts at every worker"
        silent = 0 if heard else silent + 1


def subscribe(caller: HttpCaller, uri: str) -> None:
    assert "result" in caller.ask("resources/subscribe", {"uri": uri}).messages()[-1]


def updated(stream: Answer) -> str:
    """The resource of the next update."""
    message = stream.message()
    assert message["method"] == UPDATED, message
    return message["params"]["uri"]


def tools(caller: HttpCaller) -> list[str]:
    """The names of all tools, page by page."""
    names: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = caller.ask("tools/list", cursor).messages()[-1]["result"]
        names += [tool["name"] for tool in page["tools"]]
        if "nextCursor" not in page:
            return names
        cursor = {"cursor": page["nextCursor"]}
