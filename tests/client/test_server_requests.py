"""A client answers what servers of the handshake era ask, and declares exactly what it answers."""

import asyncio
import functools
import threading
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Refused
from dovetail.client.elicitation import Elicitation
from dovetail.client.server_requests import RequestHandlers
from dovetail.protocol.envelope import CLIENT_CAPABILITIES
from dovetail.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, LocalError, Timeout
from dovetail.protocol.revisions import HANDSHAKE, REVISIONS
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, ElicitResult
from dovetail.types.content import Text, ToolUse
from tests.support.clock import Clock
from tests.support.oracle import Oracle
from tests.support.peer import cancelled, nothing_left, request
from tests.support.scripted import SILENCE, Scripted, discovery, welcome
from tests.support.waiting import settled, until

NEWEST = HANDSHAKE[-1]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ASKED = {"message": "Who?", "requestedSchema": FORM}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9}
EVERY = pytest.mark.parametrize("name", HANDSHAKE)
ELICITING = pytest.mark.parametrize(
    "name", [name for name in HANDSHAKE if "elicitation/create" in REVISIONS[name].methods]
)


def speaking(name: str = NEWEST, **answers: Any) -> Scripted:
    return Scripted(initialize=welcome(protocolVersion=name), ping={}, **answers)


def replies(server: Scripted) -> dict[Any, dict[str, Any]]:
    return {message["id"]: message for message in server.asked if "method" not in message}


async def asked(server: Scripted, method: str, **params: Any) -> dict[str, Any]:
    """Ask the client and wait for its answer."""
    id = f"q{len(server.asked)}"
    server.peer.send(request(id, method, **params))
    await until(lambda: id in replies(server))
    return replies(server)[id]


def declared(server: Scripted) -> dict[str, Any]:
    first = server.asked[0]["params"]
    return first["capabilities"] if "capabilities" in first else first["_meta"][CLIENT_CAPABILITIES]


class TestDeclaring:
    @pytest.mark.parametrize("name", REVISIONS)
    async def test_what_is_given_is_declared_and_nothing_else(self, name: str):
        revision = REVISIONS[name]
        oracle = Oracle(judge=["client"])
        cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({}, {}),
            ({"on_elicit": print}, {"elicitation": {"form": {}, "url": {}}}),
            ({"on_elicit": print, "elicit_modes": ["form"]}, {"elicitation": {"form": {}}}),
            ({"on_elicit": print, "elicit_modes": ["url"]}, {"elicitation": {"url": {}}}),
            ({"on_sample": print}, {"sampling": {}}),
            ({"on_sample": print, "sample_tools": True}, {"sampling": {"tools": {}}}),
            ({"roots": []}, {"roots": {"listChanged": True}}),
        ]
        for options, wanted in cases:
            server = Scripted(server_discover=discovery(), initialize=welcome(protocolVersion=name))
            async with Client(server, revision=name, **options, trace=oracle):
                pass
            if "elicitation" in wanted and "elicitation" not in revision.known["ClientCapabilities"]:
                wanted = {}
            elif "elicitation" in wanted and "url" not in revision.known["ElicitationCapability"]:
                wanted = {"elicitation": {}} if "form" in wanted["elicitation"] else {}
            if "sampling" in wanted and "tools" not in revision.known["SamplingCapability"]:
                wanted = {"sampling": {}}
            if "roots" in wanted and "listChanged" not in revision.known["RootsCapability"]:
                wanted = {"roots": {}}
            if revision.tasks == "core" and ("elicitation" in wanted or "sampling" in wanted):
                requests = {
                    **({"elicitation": {"create": {}}} if "elicitation" in wanted else {}),
                    **({"sampling": {"createMessage": {}}} if "sampling" in wanted else {}),
                }
                wanted = {**wanted, "tasks": {"list": {}, "cancel": {}, "requests": requests}}
            if revision.tasks == "extension":
                wanted = {**wanted, "extensions": {"io.modelcontextprotocol/tasks": {}}}
            assert declared(server) == wanted
        oracle.forgive("was used before")  # each client counts anew
        oracle.forgive("answered before")
        oracle.verdict()

    @pytest.mark.parametrize("modes", [[], ["voice"], ["form", "voice"]])
    def test_other_modes_do_not_exist(self, modes: Any):
        with pytest.raises(LocalError, match="elicit_modes"):
            Client("x", on_elicit=print, elicit_modes=modes)

    @EVERY
    async def test_what_was_not_declared_is_not_found(self, name: str):
        server = speaking(name)
        async with Client(server, revision=name):
            for method in ("elicitation/create", "sampling/createMessage", "roots/list"):
                error = (await asked(server, method))["error"]
                assert error == {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}

    async def test_what_the_revision_does_not_have_is_not_found(self):
        server = speaking(HANDSHAKE[0])
        async with Client(server, revision=HANDSHAKE[0], on_elicit=lambda _: {"name": "x"}):
            assert (await asked(server, "elicitation/create", **ASKED))["error"]["code"] == METHOD_NOT_FOUND

    async def test_pages_only_means_nothing_where_there_are_only_forms(self):
        name = "2025-06-18"
        server = speaking(name)
        async with Client(server, revision=name, on_elicit=lambda _: {}, elicit_modes=["url"]):
            assert (await asked(server, "elicitation/create", **ASKED))["error"]["code"] == METHOD_NOT_FOUND

    async def test_nobody_is_asked_before_the_handshake(self):
        server = Scripted()

        async def ask_first(message: dict[str, Any]) -> Any:
            server.peer.send(request("early", "elicitation/create", **ASKED))
            await settled()
            return welcome()

        server.answers["initialize"] = ask_first
        async with Client(server, revision=NEWEST, on_elicit=lambda _: {"name": "x"}):
            await until(lambda: replies(server))
            assert replies(server)["early"]["error"]["code"] == METHOD_NOT_FOUND


class TestElicitation:
    @ELICITING
    @pytest.mark.parametrize("as_async", [False, True])
    async def test_a_form_is_filled_in(self, name: str, as_async: bool):
        seen: list[Elicitation] = []

        def fill(question: Elicitation) -> dict[str, Any]:
            seen.append(question)
            return {"name": "Ann"}

        async def fill_later(question: Elicitation) -> dict[str, Any]:
            return fill(question)

        oracle = Oracle(judge=["client"])
        server = speaking(name)
        on_elicit = fill_later if as_async else fill
        async with Client(server, revision=name, on_elicit=on_elicit, trace=oracle):
            reply = await asked(server, "elicitation/create", **ASKED)
        assert reply["result"] == {"action": "accept", "content": {"name": "Ann"}}
        assert (seen[0].message, seen[0].mode, seen[0].schema) == ("Who?", "form", FORM)
        assert seen[0].server == Implementation("scripted", "1")
        oracle.verdict()

    async def test_who_asks_is_known_even_right_after_the_handshake(self):
        seen: list[Elicitation] = []
        server = speaking()
        take = server._take

        async def ask_at_once(peer: Any, message: dict[str, Any]) -> None:
            await take(peer, message)
            if message.get("method") == "notifications/initialized":
                peer.send(request("q", "elicitation/create", **ASKED))

        server._take = ask_at_once
        async with Client(server, revision=NEWEST, on_elicit=seen.append):
            await until(lambda: replies(server))
        assert seen[0].server == Implementation("scripted", "1")

    @pytest.mark.parametrize(
        ("answer", "result"),
        [
            (None, {"action": "decline"}),
            ("cancel", {"action": "cancel"}),
            (ElicitResult("accept", {"name": "Bob"}), {"action": "accept", "content": {"name": "Bob"}}),
        ],
    )
    async def test_saying_no_and_saying_it_in_full(self, answer: Any, result: Any):
        server = speaking()
        async with Client(server, revision=NEWEST, on_elicit=lambda _: answer):
            assert (await asked(server, "elicitation/create", **ASKED))["result"] == result

    async def test_refused_is_declined(self):
        def refuse(question: Elicitation) -> None:
            raise Refused("not today")

        server = speaking()
        async with Client(server, revision=NEWEST, on_elicit=refuse):
            assert (await asked(server, "elicitation/create", **ASKED))["result"] == {"action": "decline"}

    async def test_consent_to_a_page(self):
        seen: list[Elicitation] = []

        def agree(question: Elicitation) -> str:
            seen.append(question)
            return "accept"

        page = {"mode": "url", "url": "https://example.com/in", "message": "Sign in", "elicitationId": "7"}
        server = speaking()
        async with Client(server, revision=NEWEST, on_elicit=agree):  # type: ignore[arg-type]
            assert (await asked(server, "elicitation/create", **page))["result"] == {"action": "accept"}
            bad = await asked(server, "elicitation/create", **{**page, "url": "javascript:alert(1)"})
        assert bad["error"]["code"] == INVALID_PARAMS
        assert [(question.url, question.host, question.id) for question in seen] == [
            ("https://example.com/in", "example.com", "7")
        ]

    async def test_a_mode_that_was_not_declared_is_refused(self):
        server = speaking()
        async with Client(server, revision=NEWEST, on_elicit=lambda _: {}, elicit_modes=["form"]):
            reply = await asked(server, "elicitation/create", mode="url", url="https://a.b/", message="x")
        assert reply["error"] == {
            "code": INVALID_PARAMS,
            "message": "This client did not declare elicitation by url",
        }

    async def test_what_does_not_fit_the_form_is_not_sent(self, caplog: pytest.LogCaptureFixture):
        server = speaking()
        async with Client(server, revision=NEWEST, on_elicit=lambda _: {"name": 5}):
            reply = await asked(server, "elicitation/create", **ASKED)
        assert reply["error"] == {"code": -32603, "message": "Internal error"}
        assert "does not fit the form" in caplog.text

    async def test_several_questions_are_open_at_once_and_a_cancelled_one_closes(self):
        open_dialogs: dict[str, asyncio.Future[Any]] = {}
        closed: list[str] = []

        async def dialog(question: Elicitation) -> Any:
            answer = open_dialogs[question.message] = asyncio.get_running_loop().create_future()
            try:
                return await answer
            finally:
                closed.append(question.message)

        before = asyncio.all_tasks()
        server = speaking()
        async with Client(server, revision=NEWEST, on_elicit=dialog):
            for message in ("a", "b", "c"):
                server.peer.send(request(message, "elicitation/create", message=message, requestedSchema=FORM))
            await until(lambda: len(open_dialogs) == 3)
            server.peer.send(cancelled("b"))
            await until(lambda: closed == ["b"])
            open_dialogs["c"].set_result({"name": "C"})
            await until(lambda: "c" in replies(server))
            assert closed == ["b", "c"]
        assert closed == ["b", "c", "a"]
        assert replies(server).keys() == {"c"}
        await nothing_left(before)

    async def test_a_plain_function_that_waits_blocks_nobody(self):
        go_on = threading.Event()
        server = speaking()

        def wait(question: Elicitation) -> dict[str, Any]:
            assert go_on.wait(30)
            return {"name": "slow"}

        async with Client(server, revision=NEWEST, on_elicit=wait) as client:
            server.peer.send(request("slow", "elicitation/create", **ASKED))
            await client.ping()
            go_on.set()
            await until(lambda: "slow" in replies(server))


class TestSampling:
    @EVERY
    async def test_a_text_is_an_answer(self, name: str):
        seen: list[CreateMessageParams] = []

        def answer(params: CreateMessageParams) -> str:
            seen.append(params)
            return "Hello"

        oracle = Oracle(judge=["client"])
        server = speaking(name)
        async with Client(server, revision=name, on_sample=answer, trace=oracle):
            reply = await asked(server, "sampling/createMessage", **SAMPLE)
        assert reply["result"] == {
            "role": "assistant",
            "content": {"type": "text", "text": "Hello"},
            "model": "unknown",
            "stopReason": "endTurn",
        }
        assert (seen[0].max_tokens, seen[0].messages[0].content) == (9, Text("Hi"))
        oracle.verdict()

    async def test_a_result_in_full_is_sent_as_it_is(self):
        result = CreateMessageResult("assistant", [ToolUse("1", "t", {})], "m", "toolUse")

        async def answer(params: CreateMessageParams) -> CreateMessageResult:
            return result

        tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        server = speaking()
        async with Client(server, revision=NEWEST, on_sample=answer, sample_tools=True):
            reply = await asked(server, "sampling/createMessage", **SAMPLE, tools=tools)
        assert reply["result"]["content"] == [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]

    @EVERY
    async def test_a_person_may_refuse(self, name: str):
        async def refuse(params: CreateMessageParams) -> str:
            raise Refused("not that")

        server = speaking(name)
        async with Client(server, revision=name, on_sample=refuse):
            reply = await asked(server, "sampling/createMessage", **SAMPLE)
        assert reply["error"] == {"code": -1, "message": "User rejected sampling request"}

    @pytest.mark.parametrize(
        ("more", "wrong"),
        [
            ({"tools": []}, "This client did not declare sampling with tools"),
            ({"toolChoice": {"mode": "auto"}}, "This client did not declare sampling with tools"),
            (
                {"messages": [{"role": "user", "content": {"type": "tool_result", "toolUseId": "1", "content": []}}]},
                "Tool result without a tool use: 1",
            ),
            ({"maxTokens": "many"}, "Invalid params: Expected `int`, got `str` - at `$.maxTokens`"),
        ],
    )
    async def test_what_must_not_be_asked_is_refused(self, more: dict[str, Any], wrong: str):
        server = speaking()
        async with Client(server, revision=NEWEST, on_sample=lambda _: pytest.fail("asked")):
            reply = await asked(server, "sampling/createMessage", **{**SAMPLE, **more})
        assert reply["error"] == {"code": INVALID_PARAMS, "message": wrong}

    @pytest.mark.parametrize("answer", [None, 5, b"x", {"role": "assistant"}])
    async def test_what_is_no_answer_is_the_callers_error(self, answer: Any, caplog: pytest.LogCaptureFixture):
        server = speaking()
        async with Client(server, revision=NEWEST, on_sample=lambda _: answer):
            reply = await asked(server, "sampling/createMessage", **SAMPLE)
        assert reply["error"]["code"] == -32603
        assert "on_sample returns a text or a CreateMessageResult" in caplog.text

    async def test_whatever_can_be_called_is(self):
        class Model:
            async def __call__(self, params: CreateMessageParams) -> str:
                assert threading.current_thread() is threading.main_thread()
                return "object"

            async def method(self, more: str, params: CreateMessageParams) -> str:
                return more

        async def later() -> str:
            return "made elsewhere"

        for on_sample, text in (
            (Model(), "object"),
            (functools.partial(Model().method, "partial"), "partial"),
            (lambda _: later(), "made elsewhere"),
        ):
            server = speaking()
            async with Client(server, revision=NEWEST, on_sample=on_sample):
                reply = await asked(server, "sampling/createMessage", **SAMPLE)
            assert reply["result"]["content"]["text"] == text

    async def test_a_function_that_fails_hurts_only_its_question(self, caplog: pytest.LogCaptureFixture):
        def fail(params: CreateMessageParams) -> str:
            raise RuntimeError("no model")

        server = speaking()
        async with Client(server, revision=NEWEST, on_sample=fail) as client:
            reply = await asked(server, "sampling/createMessage", **SAMPLE)
            assert reply["error"] == {"code": -32603, "message": "Internal error"}
            await client.ping()
        assert "no model" in caplog.text


class TestRoots:
    @EVERY
    async def test_they_are_listed_and_changed(self, name: str, tmp_path: Path):
        oracle = Oracle(judge=["client"])
        server = speaking(name)
        async with Client(server, revision=name, roots=[tmp_path, tmp_path / "none"], trace=oracle) as client:
            found = [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]
            assert (await asked(server, "roots/list"))["result"] == {"roots": found}
            client.set_roots([])
            await until(lambda: server.methods[-1] == "notifications/roots/list_changed")
            assert (await asked(server, "roots/list"))["result"] == {"roots": []}
        oracle.verdict()

    @pytest.mark.parametrize("as_async", [False, True])
    async def test_a_function_gives_them_when_they_are_asked_for(self, as_async: bool, tmp_path: Path):
        async def later() -> list[Path]:
            return [tmp_path]

        server = speaking()
        async with Client(server, revision=NEWEST, roots=later if as_async else lambda: [tmp_path]):
            assert (await asked(server, "roots/list"))["result"]["roots"][0]["uri"] == tmp_path.as_uri()

    async def test_a_person_may_refuse(self):
        def refuse() -> list[str]:
            raise Refused("mine")

        server = speaking()
        async with Client(server, revision=NEWEST, roots=refuse):
            assert (await asked(server, "roots/list"))["error"]["code"] == -1

    async def test_where_a_change_cannot_be_told_it_is_not(self):
        server = Scripted(server_discover=discovery(), tools_list={"tools": [], "resultType": "complete"})
        async with Client(server, roots=[]) as client:
            client.set_roots(["/"])
            await client.tools()
        assert server.methods == ["server/discover", "tools/list"]

    def test_they_can_be_set_before_opening_but_not_out_of_nothing(self):
        Client("x", roots=[]).set_roots(["/"])
        with pytest.raises(LocalError, match="give Client roots="):
            Client("x").set_roots([])

    @pytest.mark.parametrize("roots", ["/tmp", ["https://example.com"]])
    def test_what_is_no_root_is_refused_at_once(self, roots: Any):
        with pytest.raises(LocalError):
            Client("x", roots=roots)
        with pytest.raises(LocalError):
            Client("x", roots=[]).set_roots(roots)


class TestTime:
    async def test_while_a_person_thinks_no_call_times_out(self):
        clock = Clock()
        thinking: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def think(question: Elicitation) -> Any:
            return await thinking

        server = speaking(tools_call=SILENCE)
        async with Client(server, revision=NEWEST, timeout=10, on_elicit=think) as client:
            call = asyncio.create_task(client.call("x"))
            await settled()
            await clock.advance(6)
            server.peer.send(request("q", "elicitation/create", **ASKED))
            await settled()
            await clock.advance(40)  # within the test's own patience
            assert not call.done()
            thinking.set_result(None)
            await settled()
            assert replies(server)["q"]["result"] == {"action": "decline"}
            await clock.advance(3.9)
            assert not call.done()
            await clock.advance(0.2)
            with pytest.raises(Timeout):
                await call


class TestBlocking:
    def test_callbacks_run_in_threads_and_may_use_the_client(self):
        from dovetail.client.blocking import BlockingClient

        server = speaking()
        done = threading.Event()

        async def ask(message: dict[str, Any]) -> Any:
            server.peer.send(request("q", "sampling/createMessage", **SAMPLE))
            return {"content": []}

        server.answers["tools/call"] = ask
        clients: list[BlockingClient] = []

        def sample(params: CreateMessageParams) -> str:
            clients[0].ping()
            done.set()
            return "pinged"

        with Client.blocking(server, revision=NEWEST, on_sample=sample, roots=[]) as client:
            clients.append(client)
            client.call("x")
            assert done.wait(30)
            client.set_roots(["/"])
            client.ping()
        assert "notifications/roots/list_changed" in server.methods


def test_answers_by_themselves_answer_nothing():
    answers = RequestHandlers()
    for method in ("elicitation/create", "sampling/createMessage", "roots/list", "x"):
        assert not answers.can_handle(method, REVISIONS[NEWEST])
        with pytest.raises(Refused, match=method):
            answers.check(method, REVISIONS[NEWEST])
    answers.stop()


@pytest.mark.attack("L3")
async def test_a_flood_of_elicitations_is_answered_with_errors_and_reaches_the_user_in_part():
    seen: list[Elicitation] = []

    async def decline(question: Elicitation) -> None:
        seen.append(question)

    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    server = Scripted(initialize=welcome(), tools_call={"content": []})
    async with Client(server, on_elicit=decline, revision=HANDSHAKE[-1]) as client:
        for id in range(1000):
            server.peer.send({"jsonrpc": "2.0", "id": f"q{id}", "method": "elicitation/create", "params": form})
        await until(lambda: sum("method" not in message for message in server.asked) == 1000)
        await client.call("still works")
    answers = [message for message in server.asked if "method" not in message]
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert 64 <= len(seen) <= 250
    assert len(refused) == 1000 - len(seen)
    assert {error["code"] for error in refused} == {429}
    assert any("Too many requests to the client" in error["message"] for error in refused)


@pytest.mark.attack("L3")
async def test_questions_one_after_the_other_are_limited_by_their_rate():
    seen: list[Elicitation] = []
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    server = Scripted(initialize=welcome(), tools_call={"content": []})
    async with Client(server, on_elicit=seen.append, revision=HANDSHAKE[-1]):
        for number in range(1, 301):
            server.peer.send({"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": form})
            await until(lambda n=number: sum("method" not in message for message in server.asked) == n)
    refused = [message["error"]["code"] for message in server.asked if "error" in message]
    assert len(seen) + len(refused) == 300
    assert len(refused) > 50 and set(refused) == {429}
