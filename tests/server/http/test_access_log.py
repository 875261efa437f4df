"""Request ids, and the line that is written about every request."""

import asyncio
import contextvars
import json
import logging
import re
import timeit
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.server.http.access_log import AccessLogEntry, RequestIds, current_request_id
from dovetail.server.http.request import HttpRequest
from dovetail.transports.http.server.response import HttpResponse
from tests.support.http import serving

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Kept(logging.Handler):
    """Keeps the records that pass its filter."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []
        self.addFilter(RequestIds())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.records if record.name == "dovetail.http"]


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept, loggers = Kept(), [logging.getLogger(name) for name in ("dovetail", "inn")]
    for logger in loggers:
        logger.addHandler(kept)
        logger.setLevel(logging.INFO)
    yield kept
    for logger in loggers:
        logger.removeHandler(kept)
        logger.setLevel(logging.NOTSET)


def inn() -> Server:
    server = Server("inn", auth={"secret": "ann\nroot"}.get)

    @server.tool
    async def book(room: str, ctx: Context) -> str:
        logging.getLogger("inn").info("booked")
        return await asyncio.create_task(later())

    @server.tool
    def clean(room: str) -> str:
        logging.getLogger("inn").info("cleaned")
        return current_request_id() or ""

    async def later() -> str:
        return current_request_id() or ""

    return server


def message(method: str, id: int | None = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "method": method, "params": params}


INITIALIZE = message(
    "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "c", "version": "1"}
)


class Web:
    """A client of one application."""

    def __init__(self, session: Any, url: str) -> None:
        self._session = session
        self._url = url
        self.headers = {**HEADERS, "authorization": "Bearer secret"}

    async def post(self, body: Any, path: str = "/mcp", **headers: str) -> Any:
        async with self._session.post(
            self._url + path, data=json.dumps(body), headers={**self.headers, **headers}
        ) as answer:
            await answer.read()
            return answer

    async def call(self, tool: str, **headers: str) -> tuple[Any, str]:
        answer = await self.post(message("tools/call", name=tool, arguments={"room": "garden"}), **headers)
        return answer, (await answer.json())["result"]["content"][0]["text"]


async def opened(session: Any, url: str) -> Web:
    web = Web(session, url)
    answer = await web.post(INITIALIZE)
    web.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
    await web.post(message("notifications/initialized", None))
    return web


async def test_a_log_line_names_the_request_and_none_of_its_arguments(kept: Kept) -> None:
    import aiohttp

    async with serving(inn().asgi()) as url, aiohttp.ClientSession() as session:
        web = await opened(session, url)
        _, id = await web.call("book")
        await web.post(message("resources/read", uri="inn://menu"))
        await web.post({}, "/no%0awhere")
        await web.post(message("ping"), authorization="Bearer wrong")
    short = web.headers["mcp-session-id"][:8]
    shown = [re.sub(r" [0-9.]+ ms", " ms", line) for line in kept.lines()]
    assert [line.partition(" request=")[0] for line in shown] == [
        "POST /mcp initialize 200 ms principal=ann?root",
        f"POST /mcp notifications/initialized 202 ms principal=ann?root session={short}",
        f"POST /mcp tools/call book 200 ms principal=ann?root session={short}",
        f"POST /mcp resources/read inn://menu 200 ms principal=ann?root session={short}",
        "POST /no?where 404 ms",
        f"POST /mcp 401 ms session={short}",
    ]
    assert len(short) == 8 and f"request={id}" in kept.lines()[2]
    everything = "\n".join(kept.lines())
    assert "secret" not in everything and "garden" not in everything and web.headers["mcp-session-id"] not in everything


async def test_the_request_id_of_a_client_is_used_and_returned(kept: Kept) -> None:
    import aiohttp

    async with serving(inn().asgi()) as url, aiohttp.ClientSession() as session:
        web = await opened(session, url)
        for tool in ("book", "clean"):
            answer, id = await web.call(tool, **{"X-Request-Id": "from-me.1_2"})
            assert (answer.headers["x-request-id"], id) == ("from-me.1_2", "from-me.1_2")
        named = [record.request_id for record in kept.records if record.name == "inn"]
        assert named == ["from-me.1_2", "from-me.1_2"]
        assert sum("request=from-me.1_2" in line for line in kept.lines()) == 2


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 129, "é", 'a"b', "a,b"])
async def test_a_missing_or_invalid_request_id_is_replaced_by_a_random_one(kept: Kept, given: str | None) -> None:
    import aiohttp

    headers = {} if given is None else {"X-Request-Id": given}
    async with serving(inn().asgi()) as url, aiohttp.ClientSession() as session:
        web = await opened(session, url)
        seen = set[str]()
        for _ in range(2):
            answer, id = await web.call("book", **headers)
            assert "x-request-id" not in answer.headers
            assert id != given and len(id) == 16
            seen.add(id)
        assert len(seen) == 2


async def test_the_longest_valid_request_id_is_used() -> None:
    import aiohttp

    async with serving(inn().asgi()) as url, aiohttp.ClientSession() as session:
        answer = await (await opened(session, url)).post(message("ping"), **{"X-Request-Id": "x" * 128})
        assert answer.headers["x-request-id"] == "x" * 128


def test_there_is_no_request_id_outside_of_requests() -> None:
    record = logging.makeLogRecord({})
    assert current_request_id() is None
    assert RequestIds().filter(record)
    assert record.request_id == "-"  # type: ignore[attr-defined]


def test_a_disabled_access_log_costs_next_to_nothing() -> None:
    async def nothing(_: Any = None) -> Any: ...

    reply, scope = HttpResponse(nothing), {"method": "POST", "headers": []}
    arrival = HttpRequest(scope, {b"host": b"localhost"}, nothing, reply)

    def once() -> None:
        entry = AccessLogEntry()
        entry.request = arrival
        entry.end(scope, "/mcp", reply)

    assert not logging.getLogger("dovetail.http").isEnabledFor(logging.INFO)
    cost = min(contextvars.copy_context().run(timeit.repeat, once, number=20_000, repeat=5)) / 20_000
    assert cost < 5e-6, f"{cost * 1e6:.2f} µs"  # 0.6 µs on an idle machine
