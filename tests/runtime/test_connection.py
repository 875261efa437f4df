"""A connection: requests both ways at once, each answered once, cancelled or failed; nothing else ends it."""

import asyncio
from typing import Any

import pytest

from dovetail.protocol.deadline import Timeouts
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, OutcomeUnknown, ProtocolError
from dovetail.protocol.peer import MAX_IN_FLIGHT
from dovetail.runtime import connection as module
from dovetail.runtime.call import Call
from dovetail.runtime.connection import MAX_UNREAD_ANSWERS, Connection
from dovetail.transports.base import HIGH_WATER
from dovetail.transports.memory import memory_pair
from dovetail.wire import codec
from dovetail.wire.lines import TooLong
from tests.support.peer import Peer, Script, cancelled, connected, nothing_left, notification, request, working
from tests.support.waiting import settled, until

PATIENCE = Timeouts(30)


async def forever(call: Call) -> Any:
    await asyncio.Event().wait()


async def echo(call: Call) -> Any:
    return call.request.params


class Gate:
    """A handler that shows when it begins and how it ends, and waits in between until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = asyncio.Event()
        self.how = ""

    async def __call__(self, call: Call) -> str:
        self.begun.set()
        try:
            await self.go.wait()
            self.how = "finished"
        except asyncio.CancelledError:
            self.how = "cancelled"
            raise
        finally:
            self.ended.set()
        return "done"


class TestAnswering:
    async def test_at_once(self):
        async with connected(Script(now=lambda call: b"[1]")) as (_, peer):
            peer.request(1, "now")
            assert await peer.next() == {"jsonrpc": "2.0", "id": 1, "result": [1]}

    async def test_after_some_work(self):
        async with connected(Script(echo=working(echo))) as (_, peer):
            peer.request("a", "echo", x=5)
            assert await peer.next() == {"jsonrpc": "2.0", "id": "a", "result": {"x": 5}}

    async def test_with_an_error(self):
        def refuse(call: Call) -> bytes:
            raise ProtocolError(-32602, "No such thing", {"thing": 1})

        async def refuse_later(call: Call) -> Any:
            refuse(call)

        async with connected(Script(refuse=refuse, later=working(refuse_later))) as (_, peer):
            for method in ("refuse", "later"):
                peer.request(1, method)
                assert await peer.error() == {
                    "code": -32602,
                    "message": "No such thing",
                    "data": {"thing": 1},
                }

    async def test_not_at_all_where_the_service_says_so(self):
        async with connected(Script(quiet=lambda call: None)) as (_, peer):
            peer.request(1, "quiet")
            await peer.silent()

    async def test_to_a_message_that_cannot_be_read(self):
        service = Script()
        async with connected(service) as (_, peer):
            peer.send(b"hello")
            assert (await peer.next())["error"]["code"] == -32700
            service.null_id = True
            peer.send(b"hello")
            assert (await peer.next())["id"] is None
            peer.send(b'{"jsonrpc":"2.0","id":7,"method":5}')
            assert (await peer.next())["id"] == 7

    async def test_to_nothing_that_cannot_be_read_where_the_service_does_not_want_to(self):
        service = Script()
        service.answering = False
        async with connected(service) as (_, peer):
            peer.send(b"Listening on stdio", b"{}")
            await peer.silent()

    async def test_to_a_message_that_is_too_long(self):
        async with connected(Script()) as (connection, peer):
            connection.overlong(TooLong(10**8, b'{"jsonrpc":"2.0","id":3,"method":"m"', b'"}}', 10**7))
            assert await peer.next() == {
                "jsonrpc": "2.0",
                "id": 3,
                "error": {"code": -32600, "message": "Message too long: 100000000 bytes, and the limit is 10000000"},
            }

    async def test_nobody_answers_notifications(self):
        service = Script()
        async with connected(service) as (_, peer):
            peer.send(notification("notifications/news", x=1))
            await peer.silent()
        assert [(heard.method, heard.params) for heard in service.heard] == [("notifications/news", {"x": 1})]


class Harmful(BaseException): ...


class TestIsolation:
    @pytest.mark.parametrize(
        "problem",
        [
            ValueError("secret"),
            Harmful(),
            SystemExit(3),
            KeyboardInterrupt(),
            asyncio.CancelledError(),
            GeneratorExit(),
        ],
        ids=lambda problem: type(problem).__name__,
    )
    async def test_a_handler_that_breaks_hurts_only_its_call(self, problem: BaseException):
        async def break_down(call: Call) -> Any:
            raise problem

        async with connected(Script(bad=working(break_down), echo=working(echo))) as (_, peer):
            peer.send(request(1, "bad"), request(2, "echo"))
            answers = [await peer.next(), await peer.next()]
            assert {"jsonrpc": "2.0", "id": 2, "result": {}} in answers
            assert {
                "jsonrpc": "2.0",
                "id": 1,
                "error": {"code": -32603, "message": "Internal error"},
            } in answers

    async def test_so_does_a_service_that_breaks_before_it_has_begun(self):
        def break_down(call: Call) -> bytes:
            raise RuntimeError("secret")

        async with connected(Script(bad=break_down)) as (_, peer):
            peer.request(1, "bad")
            assert await peer.error() == {"code": -32603, "message": "Internal error"}
            await peer.silent()

    async def test_and_one_that_breaks_on_a_notification(self):
        class Fragile(Script):
            def notified(self, notification: Any) -> None:
                raise RuntimeError("cannot take it")

        async with connected(Fragile()) as (_, peer):
            peer.send(notification("notifications/news"), cancelled("nobody"))
            await peer.silent()

    async def test_a_handler_that_cancels_its_own_task_is_still_answered(self):
        async def cancel_self(call: Call) -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return "done"

        async with connected(Script(odd=working(cancel_self))) as (_, peer):
            peer.request(1, "odd")
            assert await peer.answer() == "done"


class TestConcurrency:
    async def test_a_slow_request_holds_up_nobody(self):
        gate = Gate()
        async with connected(Script(slow=working(gate), echo=working(echo))) as (_, peer):
            peer.send(request(1, "slow"), request(2, "echo"))
            assert (await peer.next())["id"] == 2
            gate.go.set()
            assert (await peer.next())["id"] == 1

    async def test_requests_go_both_ways_while_others_are_served(self):
        """Each side answers by asking the other, until the count is zero."""
        left, right = memory_pair()
        sides: list[Connection] = []

        def bounce(other: int) -> Script:
            async def count_down(call: Call) -> Any:
                n = call.request.params["n"]
                if n == 0:
                    return []
                params = {"n": n - 1}
                return [n, *await sides[other].pending.request("bounce", params, PATIENCE)]

            return Script(bounce=working(count_down))

        # The side that serves a call asks back on its own connection.
        sides.extend([Connection(left, bounce(0), reader=left), Connection(right, bounce(1), reader=right)])
        for side in sides:
            side.open()
        counts = await asyncio.gather(*(sides[k % 2].pending.request("bounce", {"n": k}, PATIENCE) for k in range(12)))
        assert counts == [list(range(k, 0, -1)) for k in range(12)]
        for side in sides:
            await side.close()

    async def test_an_id_in_flight_is_refused_and_the_first_goes_on(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (_, peer):
            peer.send(request(1, "slow"), request(1, "slow"))
            error = await peer.error()
            assert (error["code"], error["message"]) == (-32600, "A request with id 1 is in flight already")
            gate.go.set()
            assert await peer.answer() == "done"

    async def test_ids_are_type_exact(self):
        async with connected(Script(slow=working(forever), echo=working(echo))) as (_, peer):
            peer.send(request(1, "slow"), cancelled("1"), request("1", "echo"))
            assert (await peer.next())["id"] == "1"
            peer.request(1, "echo")
            assert "in flight already" in (await peer.error())["message"]

    async def test_an_id_that_was_answered_can_come_again(self):
        async with connected(Script(echo=working(echo))) as (_, peer):
            for x in range(3):
                peer.request(1, "echo", x=x)
                assert await peer.answer() == {"x": x}


class TestRequestsAboveTheBound:
    """They wait for their turn, and nothing else does."""

    async def test_all_are_answered_and_no_more_than_the_bound_are_served_at_once(self):
        gate, count, most = Gate(), 0, 0

        async def slow(call: Call) -> Any:
            nonlocal count, most
            count += 1
            most = max(most, count)
            await gate.go.wait()
            count -= 1
            return "done"

        async with connected(Script(slow=working(slow))) as (connection, peer):
            peer.send(*(request(id, "slow") for id in range(3 * MAX_IN_FLIGHT)))
            await until(lambda: count == MAX_IN_FLIGHT)
            assert len(connection._peer.waiting) == 2 * MAX_IN_FLIGHT
            gate.go.set()
            assert {(await peer.next())["id"] for _ in range(3 * MAX_IN_FLIGHT)} == set(range(3 * MAX_IN_FLIGHT))
            assert most == MAX_IN_FLIGHT

    async def test_one_that_is_cancelled_while_it_waits_is_dropped_without_an_answer(self):
        gate, served = Gate(), list[Any]()

        async def slow(call: Call) -> Any:
            served.append(call.request.id)
            await gate.go.wait()
            return "done"

        async with connected(Script(slow=working(slow))) as (connection, peer):
            peer.send(*(request(id, "slow") for id in range(MAX_IN_FLIGHT + 2)), cancelled(MAX_IN_FLIGHT))
            await until(lambda: len(connection._peer.waiting) == 1)
            gate.go.set()
            answered = {(await peer.next())["id"] for _ in range(MAX_IN_FLIGHT + 1)}
            assert answered == set(served) == {*range(MAX_IN_FLIGHT), MAX_IN_FLIGHT + 1}

    async def test_a_ping_and_the_answer_that_a_handler_waits_for_overtake_them(self):
        async def asks(call: Call) -> Any:
            assert call.connection is not None
            return await call.connection.pending.request("question", {}, PATIENCE)

        script = Script(slow=working(forever), asks=working(asks), ping=lambda call: b'"pong"')
        async with connected(script) as (connection, peer):
            peer.request("first", "asks")
            question = await peer.next()
            peer.send(*(request(id, "slow") for id in range(MAX_IN_FLIGHT + 100)))
            await until(lambda: len(connection._peer.waiting) == 101)
            peer.request("alive", "ping")
            assert await peer.next() == {"jsonrpc": "2.0", "id": "alive", "result": "pong"}
            peer.send({"jsonrpc": "2.0", "id": question["id"], "result": "yes"})
            assert await peer.next() == {"jsonrpc": "2.0", "id": "first", "result": "yes"}
            await until(lambda: len(connection._peer.waiting) == 100)

    async def test_an_id_that_waits_is_refused_to_a_second_request(self):
        async with connected(Script(slow=working(forever))) as (_, peer):
            peer.send(*(request(id, "slow") for id in range(MAX_IN_FLIGHT + 1)), request(MAX_IN_FLIGHT, "slow"))
            assert (await peer.error())["message"] == f"A request with id {MAX_IN_FLIGHT} is in flight already"

    async def test_what_does_not_fit_the_budget_is_refused_with_the_limits(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (connection, peer):
            connection._peer.waiting.max_bytes = 10_000
            peer.send(*(request(id, "slow") for id in range(MAX_IN_FLIGHT)))
            peer.send(*(request(f"large {n}", "slow", x="x" * 4000) for n in range(3)))
            refused = await peer.next()
            assert (refused["id"], refused["error"]["code"]) == ("large 2", -32603)
            assert refused["error"]["data"] == {"maxInFlight": MAX_IN_FLIGHT, "maxWaitingBytes": 10_000}
            gate.go.set()
            assert len({(await peer.next())["id"] for _ in range(MAX_IN_FLIGHT + 2)}) == MAX_IN_FLIGHT + 2
            peer.request("again", "slow")
            assert await peer.answer() == "done"

    async def test_those_of_a_batch_wait_too_and_are_answered_with_it(self):
        gate = Gate()
        script = Script(slow=working(gate))
        script.batching = True
        async with connected(script) as (connection, peer):
            peer.send(*(request(id, "slow") for id in range(MAX_IN_FLIGHT)))
            peer.send([request("a", "slow"), request("b", "slow"), cancelled("a")])
            await until(lambda: len(connection._peer.waiting) == 1)
            gate.go.set()
            answers = [await peer.next() for _ in range(MAX_IN_FLIGHT + 1)]
            [batch] = [answer for answer in answers if isinstance(answer, list)]
            assert [answer["id"] for answer in batch] == ["b"]

    async def test_a_closing_connection_finishes_them_within_the_grace_period(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (connection, peer):
            peer.send(*(request(id, "slow") for id in range(2 * MAX_IN_FLIGHT)))
            await until(lambda: len(connection._peer.waiting) == MAX_IN_FLIGHT)
            finishing = asyncio.create_task(connection.finish_calls(30))
            gate.go.set()
            assert {(await peer.next())["id"] for _ in range(2 * MAX_IN_FLIGHT)} == set(range(2 * MAX_IN_FLIGHT))
            await finishing

    async def test_after_the_grace_period_they_are_dropped(self, caplog: pytest.LogCaptureFixture):
        async with connected(Script(slow=working(forever))) as (connection, peer):
            peer.send(*(request(id, "slow") for id in range(MAX_IN_FLIGHT + 1)))
            await until(lambda: len(connection._peer.waiting) == 1)
            await connection.finish_calls(0.01)
            assert not connection._peer.waiting and not connection._peer.incoming
        assert "512 calls were still running after 0.01 s and were stopped" in caplog.text
        assert "1 request was still waiting after 0.01 s and was dropped" in caplog.text


class TestCancelling:
    async def test_a_cancelled_call_stops_and_sends_nothing_more(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (_, peer):
            peer.request(1, "slow")
            await gate.begun.wait()
            peer.cancel(1)
            await gate.ended.wait()
            assert gate.how == "cancelled"
            await peer.silent()

    async def test_a_call_that_is_cancelled_before_it_begins_never_begins(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (_, peer):
            peer.send(request(1, "slow"), cancelled(1))
            await peer.silent()
            assert not gate.begun.is_set()
            peer.request(1, "slow")
            gate.go.set()
            assert await peer.answer() == "done"

    @pytest.mark.parametrize("id", [99, "1", None, 1.0, True, [1], {}])
    async def test_what_names_no_call_in_flight_is_ignored(self, id: Any):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (_, peer):
            peer.request(1, "slow")
            await gate.begun.wait()
            peer.cancel(id)
            await peer.silent()
            gate.go.set()
            assert await peer.answer() == "done"

    async def test_so_is_one_without_an_id_and_one_that_comes_too_late(self):
        async with connected(Script(echo=working(echo))) as (_, peer):
            peer.request(1, "echo")
            await peer.answer()
            peer.send(cancelled(1), notification("notifications/cancelled"))
            await peer.silent()

    async def test_a_handler_that_answers_all_the_same_is_not_heard(self):
        ended = asyncio.Event()

        async def stubborn(call: Call) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await call.progress(1, None, None)
            ended.set()
            return "here I am"

        async with connected(Script(stubborn=working(stubborn))) as (_, peer):
            peer.request(1, "stubborn", _meta={"progressToken": 1})
            await peer.silent()
            peer.cancel(1)
            await ended.wait()
            await peer.silent()

    async def test_the_service_hears_of_cancellations_that_are_not_for_its_calls(self):
        service = Script()
        async with connected(service) as (_, peer):
            peer.cancel(5)
            await peer.silent()
        assert [heard.params for heard in service.heard] == [{"requestId": 5}]


class TestBatches:
    def batching(self, **handlers: Any) -> Script:
        service = Script(**handlers)
        service.batching = True
        return service

    async def test_the_answers_come_together(self):
        gate = Gate()
        service = self.batching(slow=working(gate), now=lambda call: b"0")
        async with connected(service) as (_, peer):
            peer.send([request(1, "slow"), notification("n"), request(2, "now"), request(3, "what"), 5])
            await peer.silent()
            gate.go.set()
            answers = await peer.next()
            assert {answer.get("id"): answer.get("result", "error") for answer in answers} == {
                1: "done",
                2: 0,
                3: "error",
                None: "error",
            }

    async def test_a_batch_of_notifications_gets_no_answer(self):
        async with connected(self.batching()) as (_, peer):
            peer.send([notification("a"), notification("b")])
            await peer.silent()

    async def test_who_was_cancelled_is_missing_and_the_others_are_answered(self):
        gate = Gate()
        async with connected(self.batching(slow=working(gate), never=working(forever))) as (_, peer):
            peer.send([request(1, "slow"), request(2, "never")])
            await gate.begun.wait()
            peer.cancel(2)
            gate.go.set()
            assert await peer.next() == [{"jsonrpc": "2.0", "id": 1, "result": "done"}]

    async def test_when_the_last_one_is_cancelled_the_rest_goes_out(self):
        async with connected(self.batching(never=working(forever), now=lambda call: b"0")) as (_, peer):
            peer.send([request(1, "never"), request(2, "now")])
            await peer.silent()
            peer.cancel(1)
            assert await peer.next() == [{"jsonrpc": "2.0", "id": 2, "result": 0}]

    async def test_when_all_are_cancelled_nothing_goes_out(self):
        async with connected(self.batching(never=working(forever))) as (_, peer):
            peer.send([request(1, "never")], cancelled(1))
            await peer.silent()

    async def test_where_the_revision_has_none_a_batch_is_one_error(self):
        async with connected(Script(now=lambda call: b"0")) as (_, peer):
            peer.send([request(1, "now"), request(2, "now")])
            error = await peer.error()
            assert (error["code"], error["message"]) == (
                -32600,
                "Invalid request: this revision has no batches",
            )
            await peer.silent()

    async def test_answers_may_come_in_a_batch_too(self):
        async with connected(self.batching()) as (connection, peer):
            asked = [asyncio.create_task(connection.pending.request("m", None, PATIENCE)) for _ in range(2)]
            ids = [(await peer.next())["id"] for _ in asked]
            peer.send([{"jsonrpc": "2.0", "id": id, "result": id * 10} for id in ids])
            assert await asyncio.gather(*asked) == [10, 20]


class TestBackPressure:
    SIZE = 64 * 1024

    async def test_while_the_peer_does_not_read_no_more_is_read_from_it(self):
        big = codec.encode("x" * self.SIZE)
        served = 0

        def answer(call: Call) -> bytes:
            nonlocal served
            served += 1
            return big

        async with connected(Script(big=answer)) as (connection, peer):
            peer.channel.pause()
            for id in range(50):
                peer.request(id, "big")
            await until(lambda: connection.congested)
            await settled()
            assert served * self.SIZE <= HIGH_WATER + 2 * self.SIZE
            peer.channel.resume()
            assert [(await peer.next())["id"] for _ in range(50)] == list(range(50))
        assert served == 50

    async def test_work_begun_before_waits_with_its_answer(self):
        gate = Gate()
        big = codec.encode("x" * (HIGH_WATER + 1))
        async with connected(Script(big=lambda call: big, slow=working(gate))) as (connection, peer):
            peer.request(1, "slow")
            await gate.begun.wait()
            peer.channel.pause()
            peer.request(2, "big")
            await until(lambda: connection.congested)
            gate.go.set()
            await gate.ended.wait()
            peer.channel.resume()
            assert [(await peer.next())["id"] for _ in range(2)] == [2, 1]

    async def test_a_call_that_waits_with_its_answer_can_still_be_cancelled(self):
        gate = Gate()
        big = codec.encode("x" * (HIGH_WATER + 1))
        async with connected(Script(big=lambda call: big, slow=working(gate))) as (connection, peer):
            peer.request(1, "slow")
            await gate.begun.wait()
            peer.channel.pause()
            peer.send(request(2, "big"))
            await until(lambda: connection.congested)
            gate.go.set()
            await gate.ended.wait()
            connection.received(codec.encode(cancelled(1)))
            peer.channel.resume()
            assert (await peer.next())["id"] == 2
            await peer.silent()

    async def test_two_sides_that_both_send_much_do_not_wait_for_each_other(self):
        left, right = memory_pair()
        asking, answering = Script(), Script(echo=working(echo))
        asking.waits_for_reader = False
        client, server = Connection(left, asking, reader=left), Connection(right, answering, reader=right)
        client.open()
        server.open()
        body = {"text": "x" * HIGH_WATER}
        results = await asyncio.gather(*(client.pending.request("echo", body, PATIENCE) for _ in range(30)))
        assert [len(result["text"]) for result in results] == [HIGH_WATER] * 30
        await client.close()
        await server.close()

    async def test_a_side_that_does_not_read_is_waited_for_unless_we_want_something_from_it(self):
        """What a client with requests of its own owes its server does not stop it from reading."""
        service = Script(big=lambda call: codec.encode("x" * (HIGH_WATER + 1)))
        service.waits_for_reader = False
        async with connected(service) as (connection, peer):
            asked = asyncio.create_task(connection.pending.request("m", None, PATIENCE))
            id = (await peer.next())["id"]
            peer.channel.pause()
            peer.send(request(1, "big"), request(2, "big"), {"jsonrpc": "2.0", "id": id, "result": "here"})
            assert await asked == "here"
            peer.channel.resume()

    async def test_but_not_while_it_asks_and_asks_without_ever_reading(self):
        served = 0

        def answer(call: Call) -> bytes:
            nonlocal served
            served += 1
            return b"0"

        service = Script(big=lambda call: codec.encode("x" * (HIGH_WATER + 1)), now=answer)
        service.waits_for_reader = False
        async with connected(service) as (connection, peer):
            asked = asyncio.create_task(connection.pending.request("m", None, PATIENCE))
            id = (await peer.next())["id"]
            peer.channel.pause()
            peer.send(request("big", "big"), *(request(n, "now") for n in range(2 * MAX_UNREAD_ANSWERS)))
            await settled()
            assert served <= MAX_UNREAD_ANSWERS
            peer.channel.resume()
            await until(lambda: served == 2 * MAX_UNREAD_ANSWERS)
            peer.send({"jsonrpc": "2.0", "id": id, "result": "here"})
            assert await asked == "here"


class TestEnding:
    async def test_when_the_peer_goes_everyone_who_waits_is_told_why(self):
        service = Script()
        async with connected(service) as (connection, peer):
            asked = [asyncio.create_task(connection.pending.request("m", None, PATIENCE)) for _ in range(3)]
            for _ in asked:
                await peer.next()
            await peer.channel.close()
            problems = await asyncio.gather(*asked, return_exceptions=True)
            assert len({id(problem) for problem in problems}) == 3
            for problem in problems:
                assert isinstance(problem, OutcomeUnknown)
                assert problem.reason == "the peer closed the connection"
            with pytest.raises(ConnectionLost, match="the peer closed the connection") as unsent:
                await connection.pending.request("m", None, PATIENCE)
            assert type(unsent.value) is ConnectionLost
        assert len(service.endings) == 1

    async def test_the_service_is_told_once(self):
        service = Script()
        async with connected(service) as (connection, _):
            connection.disconnected(None)
            connection.disconnected("again")
            assert connection.gone == "the peer closed the connection"
        assert service.endings == [None]

    async def test_closing_fails_what_waits_and_what_comes_later(self):
        async with connected(Script()) as (connection, peer):
            asked = asyncio.create_task(connection.pending.request("m", None, PATIENCE))
            await peer.next()
            await connection.close()
            for late in (asked, connection.pending.request("m", None, PATIENCE)):
                with pytest.raises(ConnectionLost, match="the connection was closed"):
                    await late
            assert len(connection.pending) == 0

    async def test_closing_stops_handlers_and_lets_them_clean_up(self):
        steps: list[str] = []

        async def tidy(call: Call) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                steps.append("tidied")

        async with connected(Script(tidy=working(tidy))) as (connection, peer):
            peer.request(1, "tidy")
            await peer.silent()
            await connection.close()
            assert steps == ["tidied"]

    async def test_closing_does_not_wait_for_a_handler_that_will_not_stop(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(module, "CLEAN_UP_SECONDS", 0.01)
        go = asyncio.Event()

        async def stubborn(call: Call) -> None:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    continue

        before = asyncio.all_tasks()
        left, right = memory_pair()
        connection = Connection(right, Script(stubborn=working(stubborn)), reader=right)
        connection.open()
        peer = Peer(left)
        peer.request(1, "stubborn")
        await peer.silent()
        await connection.close()
        await peer.ended.wait()
        go.set()
        await nothing_left(before)

    async def test_calls_in_flight_may_finish_within_the_grace_period(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (connection, peer):
            peer.request(1, "slow")
            await gate.begun.wait()
            finishing = asyncio.create_task(connection.finish_calls(30))
            gate.go.set()
            await finishing
            assert await peer.answer() == "done"

    async def test_those_that_do_not_are_stopped(self):
        gate = Gate()
        async with connected(Script(slow=working(gate))) as (connection, peer):
            peer.request(1, "slow")
            await gate.begun.wait()
            await connection.finish_calls(0.01)
            await gate.ended.wait()
            assert gate.how == "cancelled"
            await peer.silent()

    async def test_with_nothing_in_flight_there_is_nothing_to_wait_for(self):
        async with connected(Script()) as (connection, _):
            await connection.finish_calls(0)

    async def test_what_arrives_after_closing_is_not_taken(self):
        service = Script()
        async with connected(service) as (connection, _):
            await connection.close()
            connection.received(codec.encode(notification("late")))
        assert service.heard == []


class TestAnswersToUs:
    async def test_an_answer_that_cannot_be_read_fails_its_call(self):
        async with connected(Script()) as (connection, peer):
            asked = asyncio.create_task(connection.pending.request("m", None, PATIENCE))
            id = (await peer.next())["id"]
            peer.send(b'{"jsonrpc":"2.0","id":%d,"result":NaN}' % id)
            with pytest.raises(InvalidAnswer, match="The answer cannot be read"):
                await asked

    async def test_an_answer_that_is_too_long_fails_its_call(self):
        async with connected(Script()) as (connection, peer):
            asked = asyncio.create_task(connection.pending.request("m", None, PATIENCE))
            id = (await peer.next())["id"]
            connection.overlong(TooLong(10**8, b'{"jsonrpc":"2.0","id":%d,"result":{"x":"' % id, b'"}}'))
            with pytest.raises(InvalidAnswer, match="Message too long: 100000000 bytes"):
                await asked

    async def test_an_answer_that_nobody_waits_for_is_ignored(self):
        async with connected(Script()) as (_, peer):
            peer.send({"jsonrpc": "2.0", "id": 9, "result": {}})
            peer.send({"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "m"}})
            await peer.silent()


async def test_whoever_traces_sees_every_line_both_ways():
    seen: list[tuple[str, bytes]] = []
    theirs, ours = memory_pair()
    connection = Connection(ours, Script(), reader=ours, trace=lambda direction, line: seen.append((direction, line)))
    connection.open()
    peer = Peer(theirs)
    await peer.silent()
    connection.notify("notifications/news", {"x": 1})
    await connection.close()
    assert [direction for direction, _ in seen] == ["received", "sent", "sent"]
    assert seen[2][1] == b'{"jsonrpc":"2.0","method":"notifications/news","params":{"x":1}}'
