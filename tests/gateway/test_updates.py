"""Updates of resources: a client that is subscribed to a folder hears only of what it may read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dovetail import Client, Gateway, Policy, Rule, Server
from dovetail.gateway import Profile
from tests.gateway.served import served, tokens
from tests.gateway.test_access import ERAS, EVERYTHING

FOLDER, SECRET, PUBLIC = "file:///dir/", "file:///dir/secret-plan", "file:///dir/public"


def make_server(revision: str) -> Server:
    server = Server("files", revisions=[revision])

    def read() -> str:
        return "text"

    for uri in (FOLDER, SECRET, PUBLIC):
        server.resource(uri)(read)

    @server.tool
    async def touch() -> str:
        # In this order, so that whoever hears of the second one has been told of the first, or never is.
        for uri in (SECRET, PUBLIC):
            server.notify_resource_updated(uri)
        return "touched"

    return server


async def heard(client: Client, uri: str, tool: str, until: str) -> list[str]:
    """The updates that a client hears of, up to one of them."""
    found: list[str] = []

    async def listen() -> None:
        async for change in client.watch(uri):
            found.append(change.uri or "")
            if change.uri == until:
                return

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(10):
        while not listening.done():
            await client.call(tool)
            await asyncio.wait([listening], timeout=0.05)
    await listening
    return found


@pytest.mark.parametrize("back", ERAS)
@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("who", [{"principal": "eve"}, {"group": "guests"}], ids=["principal", "group"])
@pytest.mark.parametrize("keys", [["files"], ["files", "more"]], ids=["own uri", "prefixed uri"])
async def test_updates_of_denied_resources_are_not_told_to_subscribers_of_their_folder(
    front: str, back: str, who: dict[str, Any], keys: list[str]
) -> None:
    rules = [
        Rule("deny", kind="resource", name=f"{FOLDER}secret*", **who),
        Rule("deny", kind="resource", server="more", principal="eve"),
        EVERYTHING,
    ]
    servers = {key: make_server(back) for key in keys}
    gateway = Gateway(servers, auth=tokens(ann=[], eve=["guests"]), policy=Policy(rules))
    prefix = "" if len(keys) == 1 else "gateway:files:"
    async with (
        served(gateway) as at,
        at.client("ann", revision=front) as ann,
        at.client("eve", revision=front) as eve,
    ):
        assert f"{prefix}{SECRET}" in await heard(ann, f"{prefix}{FOLDER}", "files__touch", f"{prefix}{PUBLIC}")
        told = await heard(eve, f"{prefix}{FOLDER}", "files__touch", f"{prefix}{PUBLIC}")
        assert set(told) == {f"{prefix}{PUBLIC}"}
    await gateway.close()


@pytest.mark.parametrize("revision", ERAS)
async def test_updates_of_resources_that_a_profile_leaves_out_are_not_told_under_their_prefixed_uris(
    revision: str,
) -> None:
    servers = {key: make_server(revision) for key in ("files", "more")}
    gateway = Gateway(servers, profiles={"some": Profile(exclude=(f"{FOLDER}secret*",))})
    async with served(gateway) as at, at.client(path="/mcp/profile/some", revision=revision) as client:
        told = await heard(client, f"gateway:files:{FOLDER}", "files__touch", f"gateway:files:{PUBLIC}")
        assert set(told) == {f"gateway:files:{PUBLIC}"}
    await gateway.close()
