"""Requests of ours: each gets its answer, its error or its timeout, and the peer hears when we give up."""

import asyncio
import logging
from typing import Any

import pytest

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, InvalidParams, NotFound, RemoteError, Timeout
from dovetail.runtime.connection import Connection
from dovetail.runtime.pending_requests import OnProgress
from tests.support.clock import Clock
from tests.support.peer import Peer, Script, connected, notification
from tests.support.waiting import settled

LONG = Timeouts(30)


def ask(connection: Connection, patience: Timeouts = LONG, **options: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(connection.pending.request("m", {"x": 1}, patience, **options))


def result(id: Any, value: Any = "done") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def progress(token: Any, value: Any, **rest: Any) -> dict[str, Any]:
    return notification("notifications/progress", progressToken=token, progress=value, **rest)


class TestAnswers:
    async def test_the_request_goes_out_and_its_result_comes_back(self):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            assert await peer.next() == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"x": 1}}
            peer.send(result(1, {"y": 2}))
            assert await asked == {"y": 2}
            assert len(connection.pending) == 0

    async def test_answers_may_come_in_any_order(self):
        async with connected(Script()) as (connection, peer):
            asked = [ask(connection) for _ in range(5)]
            ids = [(await peer.next())["id"] for _ in asked]
            peer.send(*(result(id, id) for id in reversed(ids)))
            assert await asyncio.gather(*asked) == ids

    async def test_no_id_is_used_twice(self):
        async with connected(Script()) as (connection, peer):
            taken = connection.pending.next_id()
            asked = [ask(connection), ask(connection, id=taken)]
            ids = [(await peer.next())["id"] for _ in asked]
            assert sorted(ids) == [1, 2]
            peer.send(*(result(id) for id in ids))
            await asyncio.gather(*asked)

    @pytest.mark.parametrize("id", ["1", 2, None])
    async def test_an_answer_to_another_id_resolves_nothing(self, id: Any):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            await peer.next()
            peer.send(result(id, "wrong"), {"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "wrong"}})
            peer.send(result(1, "right"))
            assert await asked == "right"

    async def test_only_the_first_answer_counts(self):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            await peer.next()
            peer.send(result(1, "first"), result(1, "second"), {"jsonrpc": "2.0", "id": 1, "error": {}})
            assert await asked == "first"

    @pytest.mark.parametrize(
        ("code", "kind"), [(-32603, RemoteError), (-32602, InvalidParams), (-32601, NotFound), (-32002, NotFound)]
    )
    async def test_an_error_is_raised_as_the_peer_said_it(self, code: int, kind: type[RemoteError]):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            await peer.next()
            error = {"code": code, "message": "No", "data": {"why": 1}}
            peer.send({"jsonrpc": "2.0", "id": 1, "error": error})
            with pytest.raises(RemoteError) as caught:
                await asked
            assert type(caught.value) is kind
            assert (caught.value.code, caught.value.message, caught.value.data) == (code, "No", {"why": 1})

    async def test_an_answer_that_cannot_be_read_is_an_error_at_once(self):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            await peer.next()
            peer.send(b'{"jsonrpc":"2.0","id":1,"error":"no"}')
            with pytest.raises(InvalidAnswer, match="cannot be read: Invalid response"):
                await asked

    async def test_what_the_peer_could_not_read_is_logged(self, caplog: pytest.LogCaptureFixture):
        async with connected(Script()) as (_, peer):
            peer.send({"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}})
            peer.send({"jsonrpc": "2.0", "id": None, "result": {}})
            await peer.silent()
        assert "The peer could not read a message: Parse error (code -32700)" in caplog.text
        assert "An answer without a readable id was dropped" in caplog.text


class TestTimeouts:
    async def test_when_the_time_is_up_the_peer_is_told(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(5))
            await peer.next()
            await clock.advance(4.9)
            assert not asked.done()
            await clock.advance(0.2)
            with pytest.raises(Timeout, match=r"No answer to m within 5 s"):
                await asked
            assert await peer.next() == notification("notifications/cancelled", requestId=1, reason="timed out")
            peer.send(result(1))
            await peer.silent()

    async def test_unless_the_request_must_not_be_cancelled(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(5), cancellable=False)
            await peer.next()
            await clock.advance(6)
            with pytest.raises(Timeout):
                await asked
            await peer.silent()

    async def test_progress_renews_the_patience(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(3))
            await peer.next()
            for step in range(5):
                await clock.advance(2)
                peer.send(progress(1, step))
                await settled()
            peer.send(result(1))
            assert await asked == "done"

    async def test_up_to_a_hard_maximum(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(3, 8))
            await peer.next()
            for step in range(4):
                await clock.advance(2)
                peer.send(progress(1, step))
                await settled()
            await clock.advance(0.1)
            with pytest.raises(Timeout, match="No answer to m within 8 s, which max_timeout allows"):
                await asked

    async def test_the_maximum_is_ten_minutes_unless_another_is_given(self):
        assert Timeouts(3).maximum == 600
        assert Timeouts(900).maximum == 900
        assert Timeouts(3, 8).maximum == 8
        assert Timeouts(None).maximum is None

    async def test_a_maximum_alone_is_enough(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(None, 7))
            await peer.next()
            await clock.advance(7.1)
            with pytest.raises(Timeout, match="within 7 s"):
                await asked

    async def test_without_both_there_is_none(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(None))
            await peer.next()
            await clock.advance(50)
            peer.send(result(1))
            assert await asked == "done"

    async def test_repeated_progress_renews_nothing(self):
        clock = Clock()
        async with connected(Script()) as (connection, peer):
            asked = ask(connection, Timeouts(3))
            await peer.next()
            for _ in range(2):
                await clock.advance(2)
                peer.send(progress(1, 0.5))
                await settled()
            await clock.advance(1.1)
            with pytest.raises(Timeout):
                await asked


class TestGivingUp:
    async def test_a_caller_that_is_cancelled_cancels_its_request(self):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            await peer.next()
            asked.cancel()
            assert await peer.next() == notification(
                "notifications/cancelled", requestId=1, reason="cancelled by the caller"
            )
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert len(connection.pending) == 0

    @pytest.mark.parametrize("outcome", [{"result": 1}, {"error": {"code": 1, "message": "too late"}}])
    async def test_one_that_is_cancelled_after_the_answer_came_cancels_nothing(self, outcome: dict[str, Any]):
        async with connected(Script()) as (connection, peer):
            asked = ask(connection)
            await peer.next()
            # In one turn of the loop: the answer arrives, and then the caller is cancelled.
            connection.received(b'{"jsonrpc":"2.0","id":1,%b' % str(outcome).replace("'", '"').encode()[1:])
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await peer.silent()

    async def test_closing_tells_the_peer_of_everything_we_no_longer_want(self):
        async with connected(Script()) as (connection, peer):
            asked = [ask(connection), ask(connection, cancellable=False)]
            for _ in asked:
                await peer.next()
            await connection.close()
            assert await peer.next() == notification(
                "notifications/cancelled", requestId=1, reason="the connection is closed"
            )
            await peer.ended.wait()
            assert peer.unread == 0
            for outcome in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(outcome, ConnectionLost)


class TestProgress:
    async def listening(self, peer: Peer, connection: Connection, callback: OnProgress) -> asyncio.Task[Any]:
        asked = ask(connection, on_progress=callback)
        await peer.next()
        return asked

    async def test_it_reaches_the_caller(self):
        heard: list[Any] = []
        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, lambda *report: heard.append(report))
            peer.send(progress(1, 1), progress(1, 2.5, total=5, message="half way"), result(1))
            await asked
        assert heard == [(1, None, None), (2.5, 5, "half way")]

    async def test_the_caller_may_be_an_async_function(self):
        heard: list[float] = []
        told = asyncio.Event()

        async def hear(value: float, total: float | None, message: str | None) -> None:
            await asyncio.sleep(0)
            heard.append(value)
            told.set()

        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, hear)
            peer.send(progress(1, 1))
            await told.wait()
            peer.send(result(1))
            await asked
        assert heard == [1]

    @pytest.mark.parametrize(
        "params",
        [
            {"progressToken": "1", "progress": 1},
            {"progressToken": 2, "progress": 1},
            {"progressToken": True, "progress": 1},
            {"progressToken": [], "progress": 1},
            {"progressToken": 1, "progress": "1"},
            {"progressToken": 1, "progress": True},
            {"progressToken": 1},
            {},
        ],
    )
    async def test_what_is_no_progress_of_ours_is_ignored(self, params: dict[str, Any]):
        heard: list[Any] = []
        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, lambda *report: heard.append(report))
            peer.send(notification("notifications/progress", **params), result(1))
            await asked
        assert heard == []

    async def test_a_total_and_a_message_of_the_wrong_kind_are_left_out(self):
        heard: list[Any] = []
        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, lambda *report: heard.append(report))
            peer.send(progress(1, 1, total="many", message=["hello"]), result(1))
            await asked
        assert heard == [(1, None, None)]

    async def test_it_only_grows(self):
        heard: list[float] = []
        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, lambda value, *_: heard.append(value))
            peer.send(*(progress(1, value) for value in (1, 1, 0, 3, 2, 4)), result(1), progress(1, 5))
            await asked
            await peer.silent()
        assert heard == [1, 3, 4]

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_callback_that_fails_hurts_nobody(self, caplog: pytest.LogCaptureFixture, is_async: bool):
        def fail(value: float, total: float | None, message: str | None) -> None:
            raise RuntimeError("not now")

        async def fail_later(value: float, total: float | None, message: str | None) -> None:
            raise RuntimeError("not now")

        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, fail_later if is_async else fail)
            peer.send(progress(1, 1), result(1))
            assert await asked == "done"
            await settled()
        assert "A progress callback failed" in caplog.text

    async def test_callbacks_that_take_too_long_do_not_pile_up(self):
        begun = 0

        async def slow(value: float, total: float | None, message: str | None) -> None:
            nonlocal begun
            begun += 1
            await asyncio.Event().wait()

        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, slow)
            peer.send(*(progress(1, value) for value in range(500)), result(1))
            assert await asked == "done"
            await settled()
            assert begun == 64

    async def test_closing_ends_them_even_before_they_begin(self):
        async def slow(value: float, total: float | None, message: str | None) -> None:
            await asyncio.Event().wait()

        async with connected(Script()) as (connection, peer):
            asked = await self.listening(peer, connection, slow)
            connection.received(
                b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
            )
            await connection.close()
            with pytest.raises(ConnectionLost):
                await asked


async def test_a_request_to_a_peer_that_is_gone_fails_at_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    async with connected(Script()) as (connection, peer):
        await peer.channel.close()
        await settled()
        with pytest.raises(ConnectionLost, match="the peer closed the connection"):
            await connection.pending.request("m", None, LONG)
    assert caplog.text == ""


async def test_requests_beyond_the_bound_wait_for_a_turn_and_fail_with_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.runtime.pending_requests.MAX_OUTSTANDING", 2)
    async with connected(Script()) as (connection, peer):
        asked = [ask(connection) for _ in range(5)]
        assert [(await peer.next())["id"] for _ in range(2)] == [1, 2]
        asked[2].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked[2]
        peer.send(result(1, "first"))
        assert await asked[0] == "first"
        assert (await peer.next())["id"] == 3
        await connection.close()
        for waiting in (asked[1], asked[3], asked[4]):
            with pytest.raises(ConnectionLost):
                await waiting
