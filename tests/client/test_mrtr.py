"""A client answers what servers of the envelope era ask back, and calls again with the answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Refused
from dovetail.client import mrtr as module
from dovetail.client.elicitation import Elicitation
from dovetail.client.mrtr import gather_or_cancel, supports_input_required
from dovetail.protocol.errors import ConnectionLost, InvalidAnswer, LocalError, Timeout
from dovetail.protocol.revisions import NEWEST, NEWEST_HANDSHAKE
from dovetail.types.capabilities import Implementation
from tests.support.clock import Clock
from tests.support.oracle import Oracle
from tests.support.peer import nothing_left, notification
from tests.support.scripted import SILENCE, Scripted, discovery
from tests.support.waiting import settled, until

FORM = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 1}}}
WHO = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": FORM}}
PAGE = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Go", "url": "https://a.example/"},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9},
}
ROOTS = {"method": "roots/list"}
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


def asking(state: str | None = "s", **questions: Any) -> dict[str, Any]:
    """A result that asks back."""
    answer: dict[str, Any] = {"resultType": "input_required"}
    if questions:
        answer["inputRequests"] = questions
    return answer if state is None else {**answer, "requestState": state}


def in_turn(*answers: Any, method: str = "tools/call") -> Scripted:
    """A server that gives these answers to one method, the last one over and over."""
    left = list(answers)
    info = {"io.modelcontextprotocol/serverInfo": {"name": "asker", "version": "1"}}
    server = Scripted(server_discover=discovery(_meta=info))
    server.answers[method] = lambda _: left.pop(0) if len(left) > 1 else left[0]
    return server


def calls(server: Scripted, method: str = "tools/call") -> list[dict[str, Any]]:
    return [message for message in server.asked if message.get("method") == method]


def fill(question: Elicitation) -> Any:
    return {"name": "Ann"} if question.mode == "form" else "accept"


class TestAnswering:
    async def test_all_questions_are_answered_and_the_request_comes_again(self, tmp_path: Path):
        seen: list[Elicitation] = []

        def on_elicit(question: Elicitation) -> Any:
            seen.append(question)
            return fill(question)

        server = in_turn(asking(who=WHO, page=PAGE, model=SAMPLE, roots=ROOTS), DONE)
        oracle = Oracle(judge=["client"])
        client = Client(server, on_elicit=on_elicit, on_sample=lambda _: "Hello", roots=[tmp_path], trace=oracle)
        async with client:
            assert (await client.call("t", x=1)).text == "done"
        first, again = calls(server)
        assert again["id"] != first["id"]
        assert again["params"] == {
            **first["params"],
            "inputResponses": {
                "who": {"action": "accept", "content": {"name": "Ann", "n": 1}},
                "page": {"action": "accept"},
                "model": {
                    "role": "assistant",
                    "content": {"type": "text", "text": "Hello"},
                    "model": "unknown",
                    "stopReason": "endTurn",
                },
                "roots": {"roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]},
            },
            "requestState": "s",
        }
        assert seen[0].server == Implementation("asker", "1")
        oracle.verdict()

    @pytest.mark.parametrize(
        ("method", "result"),
        [
            ("tools/call", DONE),
            ("prompts/get", {"resultType": "complete", "messages": []}),
            (
                "resources/read",
                {"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"},
            ),
        ],
    )
    async def test_tools_prompts_and_resources_may_ask(self, method: str, result: Any):
        server = in_turn(asking(who=WHO), result, method=method)
        async with Client(server, on_elicit=fill) as client:
            uses = {"tools/call": client.call, "prompts/get": client.prompt, "resources/read": client.read}
            await uses[method]("x:y")
        assert "inputResponses" in calls(server, method)[1]["params"]
        assert supports_input_required(NEWEST, method)

    async def test_others_may_not(self):
        server = in_turn(asking(who=WHO), method="tools/list")
        async with Client(server, on_elicit=lambda _: pytest.fail("asked")) as client:
            with pytest.raises(InvalidAnswer, match="cannot take"):
                await client.tools()
        assert not supports_input_required(NEWEST, "tools/list")
        assert not supports_input_required(NEWEST_HANDSHAKE, "nonsense")

    async def test_each_round_carries_its_own_answers_and_its_own_state(self):
        server = in_turn(asking("one", a=WHO), asking(None, b=WHO), asking("", c=WHO), asking("four"), DONE)
        async with Client(server, on_elicit=fill) as client:
            await client.call("t")
        sent = [
            (list(call["params"].get("inputResponses", ())), call["params"].get("requestState"))
            for call in calls(server)
        ]
        assert sent == [([], None), (["a"], "one"), (["b"], None), (["c"], ""), ([], "four")]
        assert len({call["id"] for call in calls(server)}) == 5
        assert [sorted(call["params"].keys() - {"_meta", "name", "arguments"}) for call in calls(server)][2:] == [
            ["inputResponses"],
            ["inputResponses", "requestState"],
            ["requestState"],
        ]

    @pytest.mark.parametrize(
        ("answer", "action"), [(None, "decline"), ("cancel", "cancel"), (Refused("no"), "decline")]
    )
    async def test_saying_no_is_an_answer_too(self, answer: Any, action: str):
        def say_no(question: Elicitation) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        server = in_turn(asking(who=WHO), DONE)
        async with Client(server, on_elicit=say_no) as client:
            await client.call("t")
        assert calls(server)[1]["params"]["inputResponses"] == {"who": {"action": action}}

    async def test_progress_and_meta_go_with_every_round(self):
        told: list[float] = []
        server = in_turn(asking(who=WHO), DONE)
        answer = server.answers["tools/call"]

        def progressing(message: dict[str, Any]) -> Any:
            token = message["params"]["_meta"]["progressToken"]
            assert token == message["id"]
            server.peer.send(notification("notifications/progress", progressToken=token, progress=1))
            return answer(message)

        server.answers["tools/call"] = progressing
        async with Client(server, on_elicit=fill) as client:
            await client.call("t", progress=lambda value, *_: told.append(value), meta={"com.example/k": 1})
        assert told == [1, 1]
        assert [call["params"]["_meta"]["com.example/k"] for call in calls(server)] == [1, 1]

    async def test_questions_of_a_round_are_open_at_once(self):
        both = asyncio.Barrier(2)

        async def meet(question: Elicitation) -> Any:
            await both.wait()
            return {}

        server = in_turn(asking(a=WHO, b=WHO), DONE)
        async with Client(server, on_elicit=meet) as client:
            await client.call("t")

    async def test_two_calls_do_not_mix_their_rounds(self):
        def by_name(message: dict[str, Any]) -> Any:
            name = message["params"]["name"]
            return DONE if "requestState" in message["params"] else asking(f"state of {name}", q=WHO)

        server = Scripted(server_discover=discovery(), tools_call=by_name)
        async with Client(server, on_elicit=fill) as client:
            await asyncio.gather(*(client.call(name) for name in "abc"))
        again = [call["params"] for call in calls(server) if "requestState" in call["params"]]
        assert {params["name"]: params["requestState"] for params in again} == {
            name: f"state of {name}" for name in "abc"
        }


class TestRefusing:
    @pytest.mark.parametrize(
        ("question", "option"),
        [(WHO, "on_elicit"), (PAGE, "on_elicit"), (SAMPLE, "on_sample"), (ROOTS, "roots")],
    )
    async def test_what_nobody_can_answer_ends_the_call_before_anyone_is_asked(self, question: Any, option: str):
        others = {
            "on_elicit": lambda _: pytest.fail("asked"),
            "on_sample": lambda _: pytest.fail("asked"),
            "roots": lambda: pytest.fail("asked"),
        }
        del others[option]
        fine = ROOTS if option != "roots" else WHO
        server = in_turn(asking(fine=fine, question=question))
        async with Client(server, **others) as client:
            with pytest.raises(Refused, match=f"{question['method']}.*{option}"):
                await client.call("t")
        assert len(calls(server)) == 1

    @pytest.mark.parametrize("question", [SAMPLE, ROOTS])
    async def test_a_refused_question_ends_the_call(self, question: Any):
        """2026-07-28 client/sampling, "Error Handling": the call need not be made again."""
        closed = asyncio.Event()

        async def dialog(question: Elicitation) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                closed.set()

        async def refuse(*_: Any) -> Any:
            await settled()
            raise Refused("not with me")

        server = in_turn(asking(who=WHO, question=question))
        async with Client(server, on_elicit=dialog, on_sample=refuse, roots=refuse) as client:
            with pytest.raises(Refused, match="not with me"):
                await client.call("t")
            assert closed.is_set()
        assert len(calls(server)) == 1

    @pytest.mark.parametrize(
        ("question", "wrong"),
        [
            ({**PAGE, "params": {**PAGE["params"], "url": "file:///etc/passwd"}}, "Only http and https"),
            ({**SAMPLE, "params": {**SAMPLE["params"], "tools": []}}, "did not declare sampling with tools"),
        ],
    )
    async def test_what_must_not_be_asked_is_an_invalid_answer(self, question: Any, wrong: str):
        server = in_turn(asking(question=question))
        async with Client(server, on_elicit=fill, on_sample=lambda _: "x") as client:
            with pytest.raises(InvalidAnswer, match=wrong):
                await client.call("t")

    @pytest.mark.parametrize("bad", [{"method": "ping"}, {"method": "elicitation/create"}, 5])
    async def test_a_question_that_cannot_be_read_is_an_invalid_answer(self, bad: Any):
        server = in_turn(asking(bad=bad))
        async with Client(server, on_elicit=fill) as client:
            with pytest.raises(InvalidAnswer, match="Invalid result of tools/call"):
                await client.call("t")

    @pytest.mark.parametrize("answer", [asking(None), {**asking(None), "inputRequests": {}}])
    async def test_asking_for_nothing_is_an_invalid_answer(self, answer: Any):
        async with Client(in_turn(answer), on_elicit=fill) as client:
            with pytest.raises(InvalidAnswer, match="without saying which"):
                await client.call("t")

    async def test_rounds_have_a_bound(self):
        server = in_turn(asking(who=WHO))
        async with Client(server, on_elicit=fill, max_rounds=3) as client:
            with pytest.raises(Refused, match="tools/call asked for input more than 3 times"):
                await client.call("t")
        assert len(calls(server)) == 4

    async def test_questions_of_a_round_have_a_bound(self):
        server = in_turn(asking("s", **{f"q{n}": WHO for n in range(module.MAX_INPUT_REQUESTS + 1)}))
        async with Client(server, on_elicit=lambda _: pytest.fail("asked")) as client:
            with pytest.raises(Refused, match="65 questions at once"):
                await client.call("t")

    async def test_what_does_not_fit_the_form_is_the_callers_error(self):
        server = in_turn(asking(who=WHO))
        async with Client(server, on_elicit=lambda _: {"name": 5}) as client:
            with pytest.raises(LocalError, match="does not fit the form"):
                await client.call("t")
        assert len(calls(server)) == 1

    async def test_what_a_function_raises_reaches_the_caller(self):
        class NoModel(Exception):
            pass

        def fail(params: Any) -> str:
            raise NoModel

        async with Client(in_turn(asking(q=SAMPLE)), on_sample=fail) as client:
            with pytest.raises(NoModel):
                await client.call("t")


class TestTime:
    async def test_a_server_that_only_waits_is_asked_at_once_and_then_less_often(self):
        clock = Clock()
        server = in_turn(asking("wait"))
        async with Client(server) as client:
            call = asyncio.create_task(client.call("t"))
            counts: list[int] = []
            for seconds in (0, 0.11, 0.21, 0.41, 0.81):
                await clock.advance(seconds)
                await settled()
                counts.append(len(calls(server)))
            assert counts == [2, 3, 4, 5, 6]
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    async def test_a_person_has_all_the_time_there_is_and_each_request_its_own(self):
        clock = Clock()
        thinking: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def think(question: Elicitation) -> Any:
            return await thinking

        server = in_turn(asking(who=WHO), SILENCE)
        async with Client(server, timeout=5, on_elicit=think) as client:
            call = asyncio.create_task(client.call("t"))
            await settled()
            await clock.advance(30)
            thinking.set_result({})
            await settled()
            await clock.advance(4.9)
            assert not call.done()
            await clock.advance(0.2)
            with pytest.raises(Timeout):
                await call

    @pytest.mark.parametrize("end", ["cancel", "lost", "close"])
    async def test_when_the_call_is_over_the_dialogs_close(self, end: str):
        before = asyncio.all_tasks()
        events: list[str] = []

        async def dialog(question: Elicitation) -> Any:
            events.append("open")
            try:
                await asyncio.Event().wait()
            finally:
                events.append("closed")

        server = in_turn(asking(a=WHO, b=WHO))
        client = Client(server, on_elicit=dialog)
        await client.open()
        call = asyncio.create_task(client.call("t"))
        await until(lambda: len(events) == 2)
        if end == "cancel":
            call.cancel()
        elif end == "lost":
            server.peer.ended.set()  # the server ends
        else:
            await client.close()
        with pytest.raises(asyncio.CancelledError if end == "cancel" else ConnectionLost):
            await call
        assert events == ["open", "open", "closed", "closed"]
        await client.close()
        await nothing_left(before)


class TestTogether:
    async def test_outcomes_keep_their_order(self):
        async def after(turns: int) -> int:
            await settled(turns)
            return turns

        assert await gather_or_cancel([after(5), after(0), after(3)]) == [5, 0, 3]

    async def test_the_first_failure_stops_the_others(self):
        stopped: list[str] = []

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("stopped")

        async def fail() -> None:
            await settled()
            raise KeyError("x")

        with pytest.raises(KeyError):
            await gather_or_cancel([wait(), fail(), wait()])
        assert stopped == ["stopped", "stopped"]
