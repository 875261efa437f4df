"""One client of a server: what it may ask, when, and what it is told otherwise."""

from typing import Any

import pytest

from dovetail import Context, Extension, Server
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, NEWEST, REVISIONS
from dovetail.types.capabilities import ClientCapabilities
from tests.support.peer import notification, request
from tests.support.served import Caller, served
from tests.support.waiting import settled

EVERY = pytest.mark.parametrize("name", REVISIONS)
EACH_HANDSHAKE = pytest.mark.parametrize("name", HANDSHAKE)
VERSION = "io.modelcontextprotocol/protocolVersion"


def example(**options: Any) -> Server:
    server = Server("s", version="1", instructions="Ask.", **options)
    server.tool(lambda: "x", name="t")
    return server


class TestOpening:
    @EACH_HANDSHAKE
    async def test_initialize_is_answered_with_all_that_a_client_needs(self, name: str):
        async with served(example(), name, opened=False) as caller:
            assert await caller.open() == {
                "protocolVersion": name,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "s", "version": "1"},
                "instructions": "Ask.",
            }

    async def test_discover_is_answered_with_all_that_a_client_needs(self):
        async with served(example(), opened=False) as caller:
            assert await caller.open() == {
                "resultType": "complete",
                "supportedVersions": list(reversed(REVISIONS)),
                "capabilities": {"tools": {"listChanged": True}},
                "instructions": "Ask.",
                "ttlMs": 0,
                "cacheScope": "public",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
            }

    @EACH_HANDSHAKE
    async def test_a_second_initialize_forgets_what_the_client_asked_for(self, name: str):
        server = example()

        @server.resource("file:///watched")
        def watched(ctx: Context) -> str:
            return ""

        async with served(server, name) as caller:
            await caller.result("resources/subscribe", uri="file:///watched")
            await caller.result("logging/setLevel", level="emergency")
            [session] = server._core._sessions
            assert (session.log_level, session.subscriptions.subscribed) == ("emergency", ["file:///watched"])
            hello = {"protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            assert (await caller.result("initialize", **hello))["protocolVersion"] == HANDSHAKE[0]
            assert session.subscriptions.subscribed == []
            assert session.log_level != "emergency"
            assert not session.lifecycle.ready
            assert await caller.call("t")

    @EACH_HANDSHAKE
    async def test_before_it_only_ping_is_heard(self, name: str):
        async with served(example(), name, opened=False) as caller:
            assert await caller.result("ping") == {}
            assert (await caller.refusal("tools/list"))["code"] == -32602

    @pytest.mark.parametrize("params", [{}, {"protocolVersion": 5}, {"protocolVersion": HANDSHAKE[0]}])
    async def test_an_initialize_that_does_not_fit_is_refused_and_may_come_again(self, params: dict[str, Any]):
        async with served(example(), HANDSHAKE[-1], opened=False) as caller:
            assert (await caller.refusal("initialize", **params))["code"] == -32602
            assert (await caller.open())["protocolVersion"] == HANDSHAKE[-1]

    async def test_both_eras_on_one_connection(self):
        async with served(example(), HANDSHAKE[0]) as caller:
            assert "resultType" not in await caller.result("tools/list")
            caller.revision = NEWEST
            assert (await caller.result("tools/list"))["resultType"] == "complete"
            caller.revision = REVISIONS[HANDSHAKE[0]]
            assert "resultType" not in await caller.result("tools/list")


class TestAsking:
    @EVERY
    async def test_what_nobody_knows_is_not_found(self, name: str):
        async with served(example(), name) as caller:
            error = await caller.refusal("no/such")
            assert error == {"code": -32601, "message": "Method not found: no/such"}

    async def test_what_another_revision_knows_is_not_found_on_this_one(self):
        async with served(example(), NEWEST.name) as caller:
            error = await caller.refusal("ping")
            assert error == {"code": -32601, "message": "Method not found on this revision: ping"}
        async with served(example(), HANDSHAKE[0]) as caller:
            for method in ("server/discover", "subscriptions/listen"):
                assert (await caller.refusal(method))["code"] == -32601

    @EVERY
    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("tools/call", {}),
            ("tools/call", {"name": 5}),
            ("tools/call", {"name": "t", "arguments": []}),
            ("tools/list", {"cursor": 5}),
            ("tools/list", {"cursor": "made up"}),
            ("resources/read", {}),
            ("prompts/get", {"name": "p", "arguments": {"a": 5}}),
        ],
    )
    async def test_params_that_do_not_fit_are_invalid(self, name: str, method: str, params: dict[str, Any]):
        async with served(example(), name) as caller:
            assert (await caller.refusal(method, **params))["code"] == -32602

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({VERSION: "1900-01-01"}, -32022),
            ({VERSION: HANDSHAKE[0]}, -32022),
            ({VERSION: 5}, -32602),
            ({"io.modelcontextprotocol/clientCapabilities": None}, -32602),
            ({"io.modelcontextprotocol/logLevel": ["x"]}, -32602),
        ],
    )
    async def test_an_envelope_that_does_not_fit_is_refused(self, change: dict[str, Any], code: int):
        async with served(example()) as caller:
            assert (await caller.refusal("tools/list", _meta=change))["code"] == code

    @EVERY
    async def test_a_list_of_what_is_not_offered_is_empty(self, name: str):
        async with served(Server("s"), name) as caller:
            assert (await caller.result("tools/list"))["tools"] == []
            assert (await caller.result("resources/templates/list"))["resourceTemplates"] == []

    async def test_notifications_that_nobody_knows_are_ignored(self):
        async with served(example()) as caller:
            caller.send(notification("notifications/whatever"), notification("notifications/roots/list_changed"))
            await caller.result("tools/list")
            assert caller.heard == []

    @EVERY
    async def test_batches_are_for_the_one_revision_that_has_them(self, name: str):
        async with served(example(), name) as caller:
            one = request("a", "tools/list", **caller.params({}))
            caller.send([one, {**one, "id": "b"}])
            answer = await caller.next()
            if REVISIONS[name].batching:
                assert [part["id"] for part in answer] == ["a", "b"]
            else:
                assert answer["error"]["code"] == -32600

    @EVERY
    async def test_an_error_without_a_readable_id_has_null_or_none(self, name: str):
        async with served(example(), name) as caller:
            caller.send(b"{{")
            answer = await caller.next()
            assert ("id" in answer) is REVISIONS[name].null_id
            assert answer.get("id") is None


class TestExtensions:
    def server(self) -> Server:
        async def greet(params: dict[str, Any], context: Any) -> dict[str, Any]:
            assert isinstance(context, Context)
            return {"hello": params["name"]}

        extension = Extension(
            id="com.example/greet",
            requests={"greet/say": greet},
            notifications={"notifications/greet": self.heard.append},
        )
        return example(extensions=[extension])

    def setup_method(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.declared = ClientCapabilities(extensions={"com.example/greet": {}})

    async def ask(self, caller: Caller) -> dict[str, Any]:
        return await caller.result("greet/say", name="Ana")

    @EVERY
    async def test_a_method_of_an_extension_that_both_declared(self, name: str):
        async with served(self.server(), name, capabilities=self.declared) as caller:
            result = await self.ask(caller)
            assert result["hello"] == "Ana"
            assert ("resultType" in result) is (name in ENVELOPE)

    @EVERY
    async def test_a_client_that_did_not_declare_it_is_told_what_is_missing(self, name: str):
        async with served(self.server(), name) as caller:
            error = await caller.refusal("greet/say", name="Ana")
            if name in ENVELOPE:
                assert error["code"] == -32021
                assert error["data"] == {"requiredCapabilities": {"extensions": {"com.example/greet": {}}}}
            else:
                assert error["code"] == -32601
            assert error["message"] == "greet/say needs the extension com.example/greet"

    @EVERY
    async def test_a_notification_of_an_extension(self, name: str):
        async with served(self.server(), name, capabilities=self.declared) as caller:
            caller.send(notification("notifications/greet", n=1))
            await settled()
        assert self.heard == [{"n": 1}]
