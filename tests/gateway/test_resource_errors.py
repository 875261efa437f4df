"""Errors about URIs: of no server, of several servers, and while servers that may have them cannot be asked."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Gateway, InvalidParams, NotFound, Policy, RemoteError, Rule, Server
from dovetail.gateway import Profile
from dovetail.gateway.errors import MAX_NAMED, ServerUnavailable, ambiguous_uri, not_found_elsewhere
from dovetail.protocol.errors import INTERNAL_ERROR
from dovetail.protocol.revisions import REVISIONS
from tests.gateway.gateway_process import GatewayProcess, client_of, configuration, names, odd
from tests.gateway.served import served, tokens

ERAS = ["2025-11-25", "2026-07-28"]
DEAD = [sys.executable, "-c", "raise SystemExit('it is broken')"]


def notes(*uris: str, template: str | None = None) -> Server:
    server = Server("notes")
    for uri in uris:

        @server.resource(uri, name=uri)
        def note() -> str:
            return "text"

    if template is not None:

        @server.resource(template)
        def any_note(name: str) -> str:
            return name

    return server


@pytest.mark.parametrize("revision", ERAS)
async def test_a_uri_of_two_servers_is_refused_with_the_uris_that_lead_to_each_though_a_third_is_down(
    revision: str,
) -> None:
    servers: dict[str, Any] = {"a": notes("note://same"), "b c": notes("note://same"), "dead": DEAD}
    async with served(Gateway(servers)) as at, at.client(revision=revision) as client:
        uris = ["gateway:a:note://same", "gateway:b%20c:note://same"]
        with pytest.raises(InvalidParams, match="Several servers have note://same") as refused:
            await client.read("note://same")
        assert all(uri in refused.value.message for uri in uris)
        assert "dead" not in refused.value.message
        assert refused.value.data == {"uri": "note://same", "uris": uris}
        assert not isinstance(refused.value, NotFound)
        for uri in uris:
            assert (await client.read(uri)).contents[0].uri == uri


async def test_a_uri_that_templates_of_two_servers_match_is_refused_with_the_uris_that_lead_to_each() -> None:
    servers = {"a": notes(template="note://{name}"), "b": notes(template="note://{+name}")}
    async with served(Gateway(servers)) as at, at.client() as client:
        with pytest.raises(InvalidParams, match="gateway:a:note://x, gateway:b:note://x"):
            await client.read("note://x")


async def test_an_error_names_no_uri_that_the_caller_would_not_see() -> None:
    policy = Policy([Rule("deny", kind="resource", server="b"), Rule("allow", tool="*")])
    servers = {key: notes("note://same") for key in ("a", "b")}
    gateway = Gateway(
        servers, auth=tokens(ann=[]), policy=policy, profiles={"none": Profile(exclude=("note:*", "gateway:*"))}
    )
    async with served(gateway) as at:
        async with at.client("ann") as ann:
            with pytest.raises(InvalidParams) as refused:
                await ann.read("note://same")
            assert refused.value.data["uris"] == ["gateway:a:note://same"]
        async with at.client("ann", "/mcp/profile/none") as ann:
            with pytest.raises(NotFound):
                await ann.read("note://same")


@pytest.mark.parametrize("revision", list(REVISIONS))
async def test_a_uri_that_no_server_has_is_not_found(revision: str) -> None:
    async with served(Gateway({"a": notes("note://a")})) as at, at.client(revision=revision) as client:
        for uri in ("note://none", "gateway:nobody:note://a"):
            with pytest.raises(NotFound) as refused:
                await client.read(uri)
            assert refused.value.code == REVISIONS[revision].not_found_code
            assert uri in refused.value.message


@pytest.mark.parametrize("revision", ERAS)
async def test_while_a_server_is_down_an_unknown_uri_is_not_found_and_the_error_says_which_was_not_asked(
    revision: str,
) -> None:
    servers: dict[str, Any] = {"a": notes("note://a"), "dead": DEAD}
    async with served(Gateway(servers)) as at, at.client(revision=revision) as client:
        with pytest.raises(RemoteError) as refused:
            await client.read("note://none")
        problem = refused.value
        assert problem.code == INTERNAL_ERROR
        assert problem.message.startswith(
            "Resource not found: note://none; the server 'dead', which may have it, could not be asked: "
        )
        assert "It is tried again in" in problem.message
        assert problem.data == {"uri": "note://none", "servers": ["dead"]}
        # What names a server that works is not there; what names one that is down may be.
        with pytest.raises(RemoteError, match=r"The server 'dead' is not available: .*It is tried again in"):
            await client.read("gateway:dead:note://none")
        assert (await client.read("note://a")).contents


async def test_a_uri_that_a_profile_excludes_is_not_found_whoever_is_down() -> None:
    gateway = Gateway({"a": notes("note://a"), "dead": DEAD}, profiles={"few": Profile(exclude=("note:*",))})
    async with served(gateway) as at, at.client(path="/mcp/profile/few") as client:
        with pytest.raises(NotFound):
            await client.read("note://a")


def test_an_error_names_a_few_servers_and_the_number_of_the_others() -> None:
    down = [ServerUnavailable(f"s{number}", "it is down", 2) for number in range(MAX_NAMED + 3)]
    text = str(not_found_elsewhere("a://b", down))
    assert text.startswith("Resource not found: a://b; 8 servers, which may have it, could not be asked. 's0': it is")
    assert text.endswith("'s4': it is down. It is tried again in 2.0 s. and 3 more")
    assert str(ambiguous_uri("a://b", [f"gateway:{n}:a://b" for n in range(7)])).endswith("gateway:4:a://b and 2 more")


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_to_a_server_that_never_worked_says_when_it_is_tried_again(revision: str, tmp_path: Path) -> None:
    servers = {"works": odd("works"), "none": {"command": "no-such-program-anywhere"}}
    with GatewayProcess(configuration(tmp_path, servers)) as gateway:
        async with client_of(gateway, revision=revision) as client:
            for _ in range(2):  # the first failure, and a refusal after it
                assert "none" in (await names(client))[1]
                with pytest.raises(RemoteError, match=r"no-such-program-anywhere.* It is tried again in \d+\.\d s\."):
                    await client.call("none__echo")
                await asyncio.sleep(0)
