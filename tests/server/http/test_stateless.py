"""The handshake era without sessions, and answers in JSON only: what works then, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.server.http.request import HttpRequest
from tests.support.raw_http import EVENTS, JSON, SESSIONS, initialize, notification, request, text_of
from tests.support.waiting import until
from tests.support.workshop import Workshop, workshop

every_revision = pytest.mark.parametrize("revision", SESSIONS)


def asking() -> Workshop:
    """With a tool that says why it could not ask."""
    server = Workshop()

    @server.tool
    async def try_to_ask(ctx: Context, how: str) -> str:
        try:
            if how == "elicit":
                await ctx.elicit("When?", str)
            elif how == "sample":
                await ctx.sample("Say something", max_tokens=10)
            else:
                await ctx.roots()
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
        return "asked"

    return server


class TestWithoutSessions:
    @every_revision
    async def test_the_handshake_gives_no_session(self, revision: str) -> None:
        async with workshop(sessions=False) as (_, site, endpoint):
            answer = await site.post(initialize(revision))
            assert (answer.status, "mcp-session-id" in answer.headers) == (200, False)
            assert (await answer.json())["result"]["protocolVersion"] == revision
            confirmed = await site.post(notification("notifications/initialized"), {"MCP-Protocol-Version": revision})
            assert (confirmed.status, await confirmed.body()) == (202, b"")
            assert endpoint.health()["sessions"] == 0

    @every_revision
    async def test_what_needs_to_be_remembered_is_not_offered(self, revision: str) -> None:
        async with workshop(sessions=False) as (_, site, _):
            offered = (await (await site.post(initialize(revision))).json())["result"]["capabilities"]
            assert {"tools", "resources", "prompts"} <= set(offered)
            for name in ("tools", "resources", "prompts"):
                assert not offered[name].get("listChanged") and not offered[name].get("subscribe")
        async with workshop() as (_, site, _):
            offered = (await (await site.post(initialize(revision))).json())["result"]["capabilities"]
            assert offered["tools"]["listChanged"] is offered["resources"]["subscribe"] is True, "with sessions it is"

    @every_revision
    async def test_every_post_stands_alone(self, revision: str) -> None:
        async with workshop(sessions=False) as (_, site, _):
            named = {"MCP-Protocol-Version": revision}
            call = request("tools/call", name="who", arguments={})
            assert text_of(await (await site.post(call, named)).json()) == f"None {revision}"
            foreign = {**named, "Mcp-Session-Id": "of another server"}
            assert (await site.post(request("ping"), foreign)).status == 200

    async def test_progress_still_comes_as_events_which_cannot_be_resumed(self) -> None:
        async with workshop(sessions=False) as (_, site, _):
            call = request("tools/call", name="tell", arguments={"count": 2}, _meta={"progressToken": 1})
            answer = await site.post(call, {"MCP-Protocol-Version": "2025-11-25"})
            events = await answer.all()
            assert [event.message.get("method") for event in events] == ["notifications/progress"] * 2 + [None]
            assert {event.id for event in events} == {None}, "an id would invite the client to come back"

    async def test_there_is_nothing_to_get_or_delete(self) -> None:
        async with workshop(sessions=False) as (_, site, _):
            for method in ("GET", "DELETE"):
                answer = await site.ask(method, {"Accept": EVENTS, "MCP-Protocol-Version": "2025-11-25"})
                assert (answer.status, answer.headers["allow"]) == (405, "POST")

    async def test_subscribing_is_refused(self) -> None:
        async with workshop(sessions=False) as (_, site, _):
            answer = await site.post(request("resources/subscribe", uri="config://app"))
            assert (await answer.json())["error"]["code"] == -32601

    @pytest.mark.parametrize("how", ["elicit", "sample", "roots"])
    @pytest.mark.parametrize("revision", SESSIONS[1:])
    async def test_a_question_is_a_clear_error(self, revision: str, how: str) -> None:
        async with workshop(asking(), sessions=False) as (_, site, _):
            await site.post(initialize(revision, elicitation={}, sampling={}, roots={}))
            call = request("tools/call", name="try_to_ask", arguments={"how": how})
            answer = await site.post(call, {"MCP-Protocol-Version": revision})
            assert "sessions=False" in text_of(await answer.json())

    async def test_batches_work_on_2025_03_26(self) -> None:
        async with workshop(sessions=False) as (_, site, _):
            answer = await site.post([request("ping", 1), request("ping", 2)])
            assert {one["id"] for one in await answer.json()} == {1, 2}

    async def test_the_envelope_era_is_served_as_ever(self) -> None:
        async with workshop(sessions=False) as (_, site, _):
            assert text_of(await (await site.call("echo", text="hi")).json()) == "hi"

    async def test_a_client_that_goes_leaves_its_call_to_end_by_itself(self) -> None:
        async with workshop(sessions=False) as (server, site, _):
            call = request("tools/call", name="tell_and_wait", arguments={}, _meta={"progressToken": 1})
            answer = await site.post(call)
            await answer.message()
            answer.line.abort()
            server.go.set()
            await until(lambda: server.ended == ["tell_and_wait"])


class TestJsonOnly:
    @every_revision
    async def test_every_answer_is_one_json_value(self, revision: str) -> None:
        async with workshop(json_response=True) as (_, site, _):
            session = await site.session(revision)
            answer = await session.call("tell", token=1, count=3)
            assert (answer.status, answer.kind) == (200, JSON)
            assert text_of(await answer.json()) == "told"

    @pytest.mark.parametrize("how", ["elicit", "sample", "roots"])
    @pytest.mark.parametrize("revision", SESSIONS[1:])
    async def test_a_question_is_a_clear_error(self, revision: str, how: str) -> None:
        async with workshop(asking(), json_response=True) as (_, site, _):
            session = await site.session(revision, elicitation={}, sampling={}, roots={})
            answer = await session.call("try_to_ask", how=how)
            assert "json_response=True" in text_of(await answer.json())

    async def test_the_get_stream_is_there_all_the_same(self) -> None:
        async with workshop(json_response=True) as (server, site, _):
            session = await site.session("2025-06-18")
            stream = await session.get()
            server.notify_tools_changed()
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    async def test_a_client_that_takes_json_only_is_treated_so_without_the_option(self) -> None:
        async with workshop(asking()) as (_, site, _):
            session = await site.session("2025-11-25", elicitation={})
            call = request("tools/call", name="try_to_ask", arguments={"how": "elicit"})
            answer = await session.post(call, Accept=JSON)
            assert "LocalError" in text_of(await answer.json())

    async def test_both_modes_together(self) -> None:
        async with workshop(asking(), json_response=True, sessions=False) as (_, site, _):
            call = request("tools/call", name="try_to_ask", arguments={"how": "elicit"})
            answer = await site.post(call, {"MCP-Protocol-Version": "2025-11-25"})
            assert text_of(await answer.json()).startswith("LocalError: ")


async def test_a_client_without_a_session_is_known_by_its_principal_or_address_for_a_bounded_time() -> None:
    from dovetail.server.http.options import Settings
    from dovetail.server.http.router import MAX_CLIENTS, HttpRouter

    router = HttpRouter(Server("stateless")._core, Settings())

    def client(principal: str | None, address: str) -> Any:
        scope = {"type": "http", "method": "POST", "client": (address, 1)}
        request = HttpRequest(scope, {}, None, None)  # type: ignore[arg-type]
        request.principal = principal
        return router._client(request)

    one = client(None, "192.0.2.1")
    assert client(None, "192.0.2.1") is one
    assert client("192.0.2.1", "192.0.2.1") is not one, "a principal with the name of an address is no address"
    for number in range(MAX_CLIENTS):
        client(None, str(number))
    assert client(None, "192.0.2.1") is not one
    assert len(router._clients) == MAX_CLIENTS
