"""Messages that cannot be taken, on every revision and transport: whoever can be answered is answered."""

import pytest

from tests.matrix.connections import Transport, on_a_connection, stands_alone, target, wired

BROKEN = [b"{nonsense", b'"just a string"', b"[]", b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', b"5"]


@pytest.mark.parametrize("line", BROKEN, ids=["not JSON", "a string", "an empty batch", "no such id", "a number"])
async def test_an_error_without_a_readable_id_has_the_id_of_its_revision(
    transport: Transport, revision: str, line: bytes
) -> None:
    """Null through 2025-06-18, no id at all later; the oracle holds the whole error against its schema."""
    async with wired(target(transport), revision) as (wire, _):
        assert "result" in await wire.ask("tools/list")
        wire.send(line)
        answer = await wire.receive()
        assert answer["error"]["code"] in (-32700, -32600)
        assert ("id" in answer) == (revision <= "2025-06-18")
        assert answer.get("id") is None
        assert "result" in await wire.ask("tools/list")


async def test_a_wrong_message_with_a_readable_id_is_answered_under_it(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send({"jsonrpc": "2.0", "id": "mine", "method": "tools/list", "params": [1, 2]})
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == ("mine", -32600)


async def test_params_of_the_wrong_shape_are_invalid_params(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        for method, params in (
            ("tools/call", {"name": 5}),
            ("resources/read", {}),
            ("tools/list", {"cursor": 3}),
        ):
            answer = await wire.ask(method, **params)
            # Headers that repeat what the body says are looked at before the body is.
            before = [-32020] if stands_alone(transport, revision) and method != "tools/list" else []
            assert answer["error"]["code"] in (-32602, *before)


async def test_an_unknown_method_is_not_found(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        assert (await wire.ask("tools/dance"))["error"]["code"] == -32601


async def test_notifications_are_never_answered(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        wire.send({"jsonrpc": "2.0", "method": "notifications/unheard", "params": {"x": 1}})
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nobody"}})
        wire.send(
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": 1, "progress": 1},
            }
        )
        assert await wire.quiet() == []


@on_a_connection
@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"notifications/x"}',
        b'{"jsonrpc":"2.0","method":5}',
        b'{"jsonrpc":"2.0","method":"notifications/x","params":[1]}',
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\\ud800"}}',
    ],
    ids=["no jsonrpc", "method as a number", "params as a list", "unreadable"],
)
async def test_malformed_notifications_are_never_answered(transport: Transport, revision: str, line: bytes) -> None:
    """Over HTTP+SSE the POST of what is no JSON is refused, which is no answer on the connection."""
    async with wired(target(transport), revision) as (wire, _):
        wire.send(line)
        refused = [said["error"]["code"] for said in await wire.quiet()]
        assert refused == ([-32700] if transport == "sse" and b"ud800" in line else [])


async def test_answers_to_nobody_are_ignored(transport: Transport, revision: str) -> None:
    """Where a request stands alone it cannot even be sent (2026-07-28 Streamable HTTP, "Sending Messages")."""
    async with wired(target(transport), revision) as (wire, _):
        wire.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
        wire.send({"jsonrpc": "2.0", "id": 4712, "error": {"code": 1, "message": "x"}})
        refusals = [said["error"]["code"] for said in await wire.quiet()]
        assert refusals == ([-32600, -32600] if stands_alone(transport, revision) else [])


async def test_ids_are_type_exact(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, _):
        assert (await wire.ask("tools/list", id="5"))["id"] == "5"
        assert (await wire.ask("tools/list", id=5))["id"] == 5


@pytest.mark.one_replica("each replica knows the requests that it serves")
async def test_an_id_that_is_in_flight_cannot_be_taken_twice(transport: Transport, revision: str) -> None:
    async with wired(target(transport), revision) as (wire, oracle):
        wire.send(wire.request("tools/call", id="twin", name="hold", arguments={"key": "twin"}))
        await wire.call("happened", event="started twin")
        second = await wire.ask("tools/call", id="twin", name="add", arguments={"a": 1, "b": 2})
        if stands_alone(transport, revision):
            assert second["result"]["content"][0]["text"] == "3"
        else:
            assert second["error"]["code"] == -32600
        await wire.call("let", event="release twin")
        first = await wire.wait_for(lambda message: message.get("id") == "twin")
        assert first["result"]["content"][0]["text"] == "twin"
        oracle.forgive("was answered before")
