"""Tasks in one process: created, shown, asked, answered, cancelled, and run again from their journals."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from dovetail import Client, Context, InputRequired, LocalError, RemoteError, Server, SyncContext, ToolError
from dovetail.server.tasks import methods, running_places
from dovetail.server.tasks import tasks as tasks_module
from dovetail.storage import MemoryStore
from tests.support.http import serving
from tests.support.raw_http import Site
from tests.support.waiting import until

Request: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]

REVISION = "2026-07-28"
YES = {"action": "accept", "content": {"name": "noir"}}
STYLE = {"type": "object", "properties": {"name": {"type": "string"}}}


@contextlib.asynccontextmanager
async def requests(server: Server, **can_be_asked: Any) -> AsyncIterator[Request]:
    """Bare requests of a client that can be asked everything, unless the test says what."""

    async def nobody(*_: object) -> Any:
        raise AssertionError("the test answers by itself")

    can_be_asked = can_be_asked or {"on_elicit": nobody, "on_sample": nobody}
    async with Client(server, revision=REVISION, **can_be_asked) as client:

        async def request(method: str, **params: Any) -> dict[str, Any]:
            return await client.request(method, params)

        yield request


async def status(request: Request, id: str, *wanted: str) -> dict[str, Any]:
    """The task once it has one of the statuses."""
    latest: dict[str, Any] = {}

    async def has_status() -> bool:
        latest.update(await request("tasks/get", taskId=id))
        return latest["status"] in wanted

    async with asyncio.timeout(20):
        while not await has_status():
            await asyncio.sleep(0.005)
    return latest


async def created(request: Request, tool: str, **arguments: Any) -> str:
    result = await request("tools/call", name=tool, arguments=arguments)
    assert result["resultType"] == "task" and result["status"] == "working"
    return result["taskId"]


async def test_a_task_goes_on_after_its_request_was_answered() -> None:
    server, go_on = Server("t"), asyncio.Event()

    @server.tool(task="optional")
    async def render(frames: int, ctx: Context) -> int:
        await ctx.progress(1, frames)
        await go_on.wait()
        await ctx.status("all frames")
        return frames

    async with requests(server) as request:
        id = await created(request, "render", frames=3)
        assert (await status(request, id, "working")).get("statusMessage") in (None, "1 of 3")
        go_on.set()
        done = await status(request, id, "completed")
        assert done["result"]["structuredContent"] == 3
        assert "error" not in done and "inputRequests" not in done


async def test_plain_functions_run_as_tasks_too() -> None:
    server = Server("t")

    @server.tool(task="required")
    def add(a: int, b: int, ctx: SyncContext) -> int:
        ctx.status("adding")
        return a + b

    async with requests(server) as request:
        done = await status(request, await created(request, "add", a=1, b=2), "completed")
        assert done["result"]["structuredContent"] == 3


async def test_failures_of_the_tool_complete_a_task_and_errors_of_the_request_fail_it() -> None:
    server = Server("t")

    @server.tool(task="optional")
    async def refuse() -> None:
        raise ToolError("not today")

    @server.tool(task="optional")
    async def needs_sampling(ctx: Context) -> str:
        return (await ctx.sample("Hello", max_tokens=5)).model

    async with requests(server) as request:
        done = await status(request, await created(request, "refuse"), "completed")
        assert done["result"]["isError"] is True
        assert done["result"]["content"][0]["text"] == "not today"
    async with requests(server, on_elicit=None) as request:
        failed = await status(request, await created(request, "needs_sampling"), "failed")
        assert failed["error"]["code"] == -32021
        assert "result" not in failed


async def test_a_task_asks_and_goes_on_with_the_answers() -> None:
    server, begun = Server("t"), list[str]()

    @server.tool(task="optional")
    async def paint(ctx: Context) -> str:
        begun.append("paint")
        first, second = await asyncio.gather(
            ctx.elicit("Style?", STYLE, key="style"), ctx.elicit("Colour?", STYLE, key="colour")
        )
        return f"{first.data['name']} {second.data['name']}"

    async with requests(server) as request:
        id = await created(request, "paint")
        asked = await status(request, id, "input_required")
        assert set(asked["inputRequests"]) == {"style", "colour"}
        assert asked["inputRequests"]["style"]["params"]["message"] == "Style?"
        await request("tasks/update", taskId=id, inputResponses={"style": YES, "unknown": {"ignored": True}})
        asked = await status(request, id, "input_required")
        assert set(asked["inputRequests"]) == {"colour"}, "an answer counts at once, and once"
        await request("tasks/update", taskId=id, inputResponses={"style": YES})
        with pytest.raises(RemoteError, match="cannot be read"):
            await request("tasks/update", taskId=id, inputResponses={"colour": {"action": "perhaps"}})
        await request("tasks/update", taskId=id, inputResponses={"colour": YES})
        done = await status(request, id, "completed")
        assert done["result"]["structuredContent"] == "noir noir"
        assert begun == ["paint"], "the handler waited in memory"


async def test_a_handler_that_was_released_is_run_again_from_its_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "MAX_WAITING_TASKS", 1)
    server, begun, ordered = Server("t"), list[int](), list[int]()

    def order(number: int) -> int:
        ordered.append(number)
        return number

    @server.tool(task="optional")
    async def buy(number: int, ctx: Context) -> str:
        begun.append(number)
        await ctx.step("order", order, number)
        answer = await ctx.elicit(f"Buy {number}?", STYLE)
        return f"{number} {answer.data['name']}"

    async with requests(server) as request:
        ids = [await created(request, "buy", number=number) for number in range(3)]
        asked = [await status(request, id, "input_required") for id in ids]
        for number, id in enumerate(ids):
            (key,) = asked[number]["inputRequests"]
            await request("tasks/update", taskId=id, inputResponses={key: YES})
            done = await status(request, id, "completed")
            assert done["result"]["structuredContent"] == f"{number} noir"
    assert ordered == [0, 1, 2], "a step that has finished never runs again"
    assert sorted(begun.count(number) for number in range(3)) == [1, 2, 2], "one was kept in memory"


async def test_a_handler_may_return_its_questions() -> None:
    server = Server("t")

    @server.tool(task="optional")
    async def paint(ctx: Context) -> str | InputRequired:
        if "style" not in ctx.answers:
            return InputRequired({"style": ctx.ask.elicit("Style?", STYLE)}, state="asked")
        return f"{ctx.answers['style'].content['name']} after {ctx.state}"

    async with requests(server) as request:
        id = await created(request, "paint")
        assert set((await status(request, id, "input_required"))["inputRequests"]) == {"style"}
        await request("tasks/update", taskId=id, inputResponses={"style": YES})
        done = await status(request, id, "completed")
        assert done["result"]["content"][0]["text"] == "noir after asked"


async def test_cancelling_stops_the_handler_and_closes_its_questions() -> None:
    server, stopped = Server("t"), list[str]()

    @server.tool(task="optional")
    async def wait(ask: bool, ctx: Context) -> str:
        try:
            if ask:
                await ctx.elicit("Well?", STYLE)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append("asking" if ask else "working")
            raise
        return "done"

    async with requests(server) as request:
        for ask, before in ((False, "working"), (True, "input_required")):
            id = await created(request, "wait", ask=ask)
            asked = await status(request, id, before)
            assert await request("tasks/cancel", taskId=id) == {"resultType": "complete"}
            assert (await request("tasks/get", taskId=id))["status"] == "cancelled"
            assert await request("tasks/cancel", taskId=id) == {"resultType": "complete"}, "a second time too"
            for key in asked.get("inputRequests", {}):
                await request("tasks/update", taskId=id, inputResponses={key: YES})
            assert (await request("tasks/get", taskId=id))["status"] == "cancelled"
        await until(lambda: stopped == ["working", "asking"])


async def test_a_handler_may_stop_waiting_by_itself() -> None:
    server = Server("t")

    @server.tool(task="optional")
    async def patient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.05):
                await ctx.elicit("Well?", STYLE)
        except TimeoutError:
            return "nobody answered"
        return "answered"

    async with requests(server) as request:
        done = await status(request, await created(request, "patient"), "completed")
        assert done["result"]["structuredContent"] == "nobody answered"


async def test_a_call_becomes_a_task_only_if_it_takes_longer_than_its_author_says() -> None:
    server, go_on = Server("t"), asyncio.Event()

    @server.tool(task=0.05)
    async def search(slow: bool, ctx: Context) -> str:
        if slow:
            answer = await ctx.elicit("Really?", STYLE, key="really")
            await go_on.wait()
            return answer.data["name"]
        return "quick"

    async with requests(server) as request:
        quick = await request("tools/call", name="search", arguments={"slow": False})
        assert quick["structuredContent"] == "quick"
        arguments = {"name": "search", "arguments": {"slow": True}}
        first = await request("tools/call", **arguments)
        assert first["resultType"] == "input_required" and "taskId" not in first
        second = await request(
            "tools/call", **arguments, inputResponses={"really": YES}, requestState=first["requestState"]
        )
        assert second["resultType"] == "task"
        go_on.set()
        done = await status(request, second["taskId"], "completed")
        assert done["result"]["structuredContent"] == "noir"


async def test_more_tasks_than_may_run_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 2)
    server, go_on = Server("t"), asyncio.Event()
    running = most = 0

    @server.tool(task="optional")
    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        return "done"

    async with requests(server) as request:
        ids = [await created(request, "work") for _ in range(5)]
        await until(lambda: running == 2)
        go_on.set()
        for id in ids:
            await status(request, id, "completed")
    assert most == 2


async def test_tasks_that_wait_for_their_tool_take_no_places_of_other_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_places, "MAX_RUNNING_TASKS", 2)
    server, go_on = Server("t"), asyncio.Event()
    running: list[str] = []

    @server.tool(task="optional", concurrency=1)
    async def narrow() -> str:
        running.append("narrow")
        await go_on.wait()
        return "done"

    @server.tool(task="optional")
    async def wide() -> str:
        return "done"

    async with requests(server) as request:
        ids = [await created(request, "narrow") for _ in range(5)]
        await until(lambda: running)
        await status(request, await created(request, "wide"), "completed")
        assert running == ["narrow"]
        go_on.set()
        for id in ids:
            await status(request, id, "completed")
    assert len(running) == 5


async def test_one_more_task_than_a_tool_may_have_is_refused() -> None:
    server, go_on = Server("t"), asyncio.Event()

    @server.tool(task="optional", max_tasks=2)
    async def work() -> str:
        await go_on.wait()
        return "done"

    async with requests(server) as request:
        ids = [await created(request, "work") for _ in range(2)]
        with pytest.raises(RemoteError, match="There are 2 tasks of work already; try again later"):
            await created(request, "work")
        go_on.set()
        for id in ids:
            await status(request, id, "completed")
        await status(request, await created(request, "work"), "completed")


async def test_a_task_outlives_the_client_that_started_it_and_not_the_last_one() -> None:
    server, go_on = Server("t"), asyncio.Event()

    @server.tool(task="optional")
    async def fragile() -> str:
        await go_on.wait()
        return "done"

    @server.tool(task="optional", resume=True)
    async def robust() -> str:
        await go_on.wait()
        return "done"

    async with requests(server) as other:
        async with requests(server) as request:
            ids = [await created(request, name) for name in ("fragile", "robust")]
        assert (await other("tasks/get", taskId=ids[0]))["status"] == "working"
    async with requests(server) as request:
        failed = await status(request, ids[0], "failed")
        assert failed["error"]["data"] == {"dovetail/outcomeUnknown": True}
        go_on.set()
        assert (await status(request, ids[1], "completed"))["result"]["structuredContent"] == "done"


@pytest.mark.parametrize(("created_on", "fetched_on"), [("2025-11-25", REVISION), (REVISION, "2025-11-25")])
async def test_a_task_of_one_generation_can_be_fetched_by_the_other(created_on: str, fetched_on: str) -> None:
    server = Server("t")

    @server.tool(task="optional")
    async def number() -> int:
        return 7

    @server.tool(task="optional")
    async def table() -> dict[str, int]:
        return {"a": 1}

    async with Client(server, revision=created_on) as first, Client(server, revision=fetched_on) as second:
        for tool, value in (("number", 7), ("table", {"a": 1})):
            task = await first.start(tool)
            assert (await task.result()).data == value
            assert (await second.task(task.reference).result()).data == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "sometimes"}, '"optional", "required", or a number'),
        ({"task": True}, '"optional", "required", or a number'),
        ({"task": -1}, '"optional", "required", or a number'),
        ({"resume": True}, "resume= is for tasks"),
        ({"ttl": 60}, "ttl= is for tasks"),
        ({"max_tasks": 5}, "max_tasks= is for tasks"),
        ({"task": "optional", "max_tasks": 0}, "max_tasks is 1 or more"),
        ({"task": "optional", "ttl": 0}, "ttl is from 1 to"),
        ({"task": "optional", "ttl": 31 * 86400}, "30 days"),
    ],
)
def test_wrong_options_are_refused_at_registration(options: Any, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        Server("t").tool(name="work", **options)(lambda: None)


class CountingStore(MemoryStore):
    """A store that counts the records of tasks that are read."""

    read_tasks = 0

    async def get(self, key: str) -> bytes | None:
        self.read_tasks += key.startswith("task:")
        return await super().get(key)


async def test_a_page_of_tasks_is_listed_without_reading_the_others_and_has_no_tool_that_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods, "PAGE", 3)
    hidden: set[str] = set()
    server = Server("t", auth={"a": "ann"}.get, visible=lambda principal, kind, name: name not in hidden)
    server.tool(lambda: "done", name="shown", task="optional")
    server.tool(lambda: "done", name="secret", task="optional")
    store = CountingStore()
    async with serving(server.asgi(store=store)) as url, Site(url, Authorization="Bearer a") as ann:
        session = await ann.session("2025-11-25")
        for number in range(8):
            tool = "secret" if number % 2 else "shown"
            await (await session.ask("tools/call", name=tool, arguments={}, task={})).answer()
        await until(lambda: len(server._core.tasks) == 0)  # pyright: ignore[reportPrivateUsage]
        hidden.add("secret")
        listed, cursor = list[str](), dict[str, str]()
        while not listed or cursor:
            store.read_tasks = 0
            page = (await (await session.ask("tasks/list", **cursor)).answer())["result"]
            assert store.read_tasks <= 3
            listed += [task["taskId"] for task in page["tasks"]]
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
        assert len(set(listed)) == len(listed) == 4
