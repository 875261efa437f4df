"""Tools: run, limited, isolated from each other; and what a client gets for whatever they return or raise."""

import asyncio
import logging
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from dovetail import (
    Audio,
    CallToolResult,
    Client,
    Context,
    Embedded,
    Image,
    LocalError,
    ProtocolError,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolError,
)
from dovetail.protocol.errors import RemoteError, ToolFailed
from dovetail.protocol.revisions import NEWEST, REVISIONS
from tests.support.served import served
from tests.support.waiting import settled, until

EVERY = pytest.mark.parametrize("name", REVISIONS)
PATIENCE = 30.0


def offering(function: Any, **options: Any) -> Server:
    server = Server("s")
    server.tool(function, name="t", **options)
    return server


async def outcome(function: Any, revision: str = NEWEST.name, **options: Any) -> CallToolResult:
    """What a client gets from a tool."""
    async with Client(offering(function, **options), revision=revision) as client:
        return await client.call("t", check=False)


def said(result: CallToolResult) -> str:
    assert result.is_error
    return result.text


class TestRunning:
    async def test_a_coroutine_function_runs_on_the_loop(self):
        async def here() -> bool:
            return threading.current_thread() is threading.main_thread()

        assert (await outcome(here)).data is True

    async def test_a_plain_function_runs_in_a_thread(self):
        def elsewhere() -> bool:
            return threading.current_thread() is not threading.main_thread()

        assert (await outcome(elsewhere)).data is True

    async def test_a_plain_function_that_blocks_holds_up_nobody(self):
        go = threading.Event()
        server = offering(lambda: go.wait(PATIENCE))
        async with Client(server) as client:
            asked = asyncio.create_task(client.call("t"))
            await client.ping()
            go.set()
            assert (await asked).data is True

    async def test_a_plain_function_may_give_a_coroutine(self):
        async def late() -> str:
            return "late"

        assert (await outcome(lambda: late())).text == "late"

    @EVERY
    async def test_arguments_that_do_not_fit_never_reach_the_function(self, name: str):
        called: list[Any] = []

        def add(a: int, b: int) -> None:
            called.append((a, b))

        async with Client(offering(add), revision=name) as client:
            if REVISIONS[name].bad_arguments == "error":
                with pytest.raises(RemoteError, match="Invalid arguments for tool 't'") as caught:
                    await client.call("t", a="x")
                assert caught.value.code == -32602
            else:
                with pytest.raises(ToolFailed, match="Invalid arguments for tool 't'") as failed:
                    await client.call("t", a="x")
                assert "a" in failed.value.result.text
                assert "b" in failed.value.result.text
        assert called == []

    async def test_every_call_has_its_own_context(self):
        server = Server("s")

        @server.tool
        async def id_of(ctx: Context) -> Any:
            await asyncio.sleep(0)
            return ctx.request_id

        async with served(server) as caller:
            ids = [caller.begin("tools/call", name="id_of", arguments={}) for _ in range(10)]
            for id in ids:
                assert (await caller.answer_to(id))["result"]["structuredContent"] == id


class TestLimits:
    @pytest.mark.parametrize("is_async", [True, False])
    async def test_a_tool_that_takes_too_long_is_stopped(self, is_async: bool):
        go = threading.Event()

        async def forever() -> None:
            await asyncio.Event().wait()

        function = forever if is_async else lambda: go.wait(PATIENCE)
        assert said(await outcome(function, timeout=0.02)) == "Tool 't' did not finish within 0.02 s"
        go.set()

    async def test_a_tool_that_is_quick_enough_is_not(self):
        assert (await outcome(lambda: "x", timeout=PATIENCE)).text == "x"

    async def test_a_timeout_of_its_own_is_its_own(self):
        async def give_up() -> None:
            raise TimeoutError("the database is slow")

        assert said(await outcome(give_up, timeout=PATIENCE)) == "TimeoutError: the database is slow"

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_never_more_at_once_than_allowed(self, is_async: bool):
        running = most = 0
        lock = threading.Lock()

        def begin() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)

        def end() -> None:
            nonlocal running
            with lock:
                running -= 1

        async def on_loop() -> None:
            begin()
            await asyncio.sleep(0)
            end()

        def in_thread() -> None:
            begin()
            end()

        async with Client(offering(on_loop if is_async else in_thread, concurrency=2)) as client:
            await asyncio.gather(*(client.call("t") for _ in range(30)))
        assert 1 <= most <= 2

    async def test_who_waits_for_a_turn_can_be_cancelled_and_takes_none(self):
        go, begun = asyncio.Event(), 0

        async def wait() -> None:
            nonlocal begun
            begun += 1
            await go.wait()

        async with Client(offering(wait, concurrency=1)) as client:
            first, second, third = (asyncio.create_task(client.call("t")) for _ in range(3))
            await until(lambda: begun == 1)
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
            go.set()
            await asyncio.gather(first, third)
        assert begun == 2

    async def test_waiting_for_a_turn_is_not_part_of_the_time(self):
        go = asyncio.Event()

        async def wait(first: bool) -> str:
            if first:
                await go.wait()
            return "done"

        server = Server("s")
        server.tool(wait, name="t", concurrency=1, timeout=PATIENCE)
        async with Client(server) as client:
            slow = asyncio.create_task(client.call("t", first=True))
            await settled()
            quick = asyncio.create_task(client.call("t", first=False))
            await settled()
            go.set()
            assert [(await task).text for task in (slow, quick)] == ["done", "done"]

    async def test_the_turn_of_a_thread_is_over_when_the_thread_is(self):
        """Calls that time out must not fill the pool with threads that still run."""
        go, running, most = threading.Event(), 0, 0

        def hang() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            go.wait(PATIENCE)
            running -= 1

        async with Client(offering(hang, concurrency=1, timeout=0.01)) as client:
            assert (await client.call("t", check=False)).is_error
            asked = asyncio.create_task(client.call("t", check=False))
            await settled()
            assert most == 1
            go.set()
            assert not (await asked).is_error
        assert most == 1

    def test_the_limits_hold_on_one_loop_after_the_other(self):
        server = offering(lambda: "x", concurrency=1, timeout=PATIENCE)

        async def use() -> list[str]:
            async with Client(server) as client:
                return [result.text for result in await asyncio.gather(*(client.call("t") for _ in range(5)))]

        for _ in range(2):
            assert asyncio.run(use()) == ["x"] * 5


class Harmful(BaseException): ...


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


FAILURES: list[tuple[BaseException, str]] = [
    (ValueError("no such city"), "ValueError: no such city"),
    (KeyError("x"), "KeyError: 'x'"),
    (RuntimeError(), "RuntimeError"),
    (Harmful("stop"), "Harmful: stop"),
    (SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (ExceptionGroup("several", [ValueError("a")]), "ExceptionGroup: several (1 sub-exception)"),
]


class TestFailing:
    @EVERY
    async def test_a_tool_error_reaches_the_model_word_for_word(self, name: str):
        async def refuse() -> int:
            raise ToolError("At most 14 days.\nTry fewer.")

        assert said(await outcome(refuse, name)) == "At most 14 days.\nTry fewer."

    @pytest.mark.parametrize("is_async", [True, False])
    @pytest.mark.parametrize(("problem", "text"), FAILURES, ids=lambda value: type(value).__name__)
    async def test_any_other_exception_is_named_without_its_traceback(
        self, problem: BaseException, text: str, is_async: bool, caplog: pytest.LogCaptureFixture
    ):
        def fail() -> int:
            raise problem

        async def fail_on_loop() -> int:
            raise problem

        server = offering(fail_on_loop if is_async else fail)
        server.tool(lambda: "alive", name="other")
        async with Client(server) as client:
            assert said(await client.call("t", check=False)) == text
            assert (await client.call("other")).text == "alive"
        assert "Traceback" in caplog.text

    async def test_a_tool_that_cancels_itself_says_so(self):
        async def cancel() -> None:
            raise asyncio.CancelledError

        async def cancel_task() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        for function in (cancel, cancel_task):
            assert said(await outcome(function)) == "Tool 't' was cancelled by its own code"

    async def test_one_that_does_so_in_a_thread_too(self):
        def cancel() -> None:
            raise asyncio.CancelledError

        assert said(await outcome(cancel)) == "RuntimeError: the handler raised CancelledError"

    async def test_an_exception_that_cannot_be_put_in_words_hurts_only_its_call(self):
        async def fail() -> None:
            raise Unspeakable

        server = offering(fail)
        server.tool(lambda: "alive", name="other")
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="Internal error"):
                await client.call("t")
            assert (await client.call("other")).text == "alive"

    @EVERY
    async def test_a_protocol_error_goes_out_as_it_is(self, name: str):
        async def refuse() -> None:
            raise ProtocolError(4042, "Sign in first", {"x": 1})

        async with Client(offering(refuse), revision=name) as client:
            with pytest.raises(RemoteError, match="Sign in first") as caught:
                await client.call("t")
            assert (caught.value.code, caught.value.data) == (4042, {"x": 1})

    async def test_a_client_that_cancels_stops_the_handler_and_hears_nothing(self):
        steps: list[str] = []
        begun = asyncio.Event()

        async def wait() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                steps.append("cancelled")
                raise

        async with served(offering(wait)) as caller:
            id = caller.begin("tools/call", name="t")
            await begun.wait()
            caller.cancel(id)
            await caller.result("tools/list")
            assert caller.heard == []
        assert steps == ["cancelled"]


@dataclass
class Point:
    x: int
    y: int


class Named(TypedDict):
    name: str


class Struct(msgspec.Struct):
    a: int


class Model(pydantic.BaseModel):
    a: int


class Colour(Enum):
    RED = "red"


def as_point() -> Point:
    return Point(1, 2)


def as_dict() -> Named:
    return {"name": "n"}


def as_struct() -> Struct:
    return Struct(1)


def as_model() -> Model:
    return Model(a=1)


def as_list() -> list[Point]:
    return [Point(1, 2)]


def as_int() -> int:
    return 5


def as_text() -> str:
    return "5"


def as_bool() -> bool:
    return True


def as_none() -> None: ...


def as_enum() -> Colour:
    return Colour.RED


def as_literal() -> Literal["a", "b"]:
    return "a"


def as_optional() -> int | None:
    return None


STRUCTURED: list[tuple[Any, Any, str]] = [
    (as_point, {"x": 1, "y": 2}, '{"x":1,"y":2}'),
    (as_dict, {"name": "n"}, '{"name":"n"}'),
    (as_struct, {"a": 1}, '{"a":1}'),
    (as_model, {"a": 1}, '{"a":1}'),
    (as_list, [{"x": 1, "y": 2}], '[{"x":1,"y":2}]'),
    (as_int, 5, "5"),
    (as_text, "5", "5"),
    (as_bool, True, "true"),
    (as_enum, "red", "red"),
    (as_literal, "a", "a"),
    (as_optional, None, "null"),
]


class TestStructured:
    @EVERY
    @pytest.mark.parametrize(("function", "data", "text"), STRUCTURED, ids=[f[0].__name__ for f in STRUCTURED])
    async def test_a_typed_result_is_data_with_its_text_twin(self, name: str, function: Any, data: Any, text: str):
        result = await outcome(function, name)
        assert (result.data, result.text, result.is_error) == (data, text, False)

    @EVERY
    async def test_a_tool_that_returns_nothing_has_no_output_schema_and_no_content(self, name: str):
        async with Client(offering(as_none), revision=name) as client:
            [tool] = await client.tools()
            result = await client.call("t")
        assert tool.output_schema is None
        assert (result.content, result.structured_content, result.data) == ([], msgspec.UNSET, None)

    @EVERY
    async def test_a_tool_with_output_schema_none_sends_text_only(self, name: str):
        for function, _, text in STRUCTURED:
            async with Client(offering(function, output_schema=None), revision=name) as client:
                [tool] = await client.tools()
                result = await client.call("t")
            assert tool.output_schema is None
            assert (result.text, result.structured_content) == ("" if text == "null" else text, msgspec.UNSET)

    async def test_a_value_of_a_tool_that_is_declared_to_return_nothing_is_not_sent(self):
        def leak() -> None:
            return "secret"  # pyright: ignore[reportReturnType]

        result = await outcome(leak)
        assert "declared as -> None, and returned str" in said(result)
        assert "secret" not in said(result)

    async def test_on_the_wire_it_is_wrapped_bare_or_absent(self):
        shapes = {name: await self.on_the_wire(name) for name in REVISIONS}
        wrapped, bare, absent = {"result": 5}, 5, None
        assert list(shapes.values()) == [absent, absent, wrapped, wrapped, bare]

    async def on_the_wire(self, name: str) -> Any:
        async with served(offering(as_int), name) as caller:
            return (await caller.call("t")).get("structuredContent")

    async def test_a_result_that_breaks_the_promise_is_a_failure(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.ERROR)

        def lie() -> int:
            return "five"  # type: ignore[return-value]

        assert said(await outcome(lie)).startswith("The tool returned something else than it promises: ")
        assert "returned something else than it promises" in caplog.text

    @pytest.mark.parametrize("value", ["five", object()], ids=["another type", "not JSON"])
    async def test_the_error_of_such_a_result_names_the_tool_once(self, value: Any):
        def lie() -> Any:
            return value

        schema = {"type": "object"}
        async with Client(offering(lie, output_schema=schema)) as client:
            with pytest.raises(ToolFailed, match="Tool 't' failed: The tool returned ") as caught:
                await client.call("t")
        assert str(caught.value).count("'t'") == str(caught.value).count("failed") == 1

    async def test_so_is_one_that_breaks_a_schema_given_by_hand(self):
        schema = {"type": "object", "required": ["m"]}
        assert "promises" in said(await outcome(lambda: {"n": 1}, output_schema=schema))
        assert (await outcome(lambda: {"m": 1}, output_schema=schema)).data == {"m": 1}


class TestUnstructured:
    async def test_nothing_is_no_content(self):
        result = await outcome(lambda: None)
        assert (result.content, result.data) == ([], None)

    async def test_a_string_is_text(self):
        result = await outcome(lambda: "hello")
        assert (result.content, result.data) == ([Text("hello")], None)

    @EVERY
    @pytest.mark.parametrize(
        ("value", "data"),
        [({"a": 1}, {"a": 1}), ([1, 2], [1, 2]), (5, 5), (Point(1, 2), {"x": 1, "y": 2}), (Model(a=1), {"a": 1})],
    )
    async def test_anything_else_is_json(self, name: str, value: Any, data: Any):
        result = await outcome(lambda: value, name)
        assert result.data == data
        assert msgspec.json.decode(result.text) == data

    @pytest.mark.parametrize(
        "content",
        [
            Text("hello"),
            Image(data=b"\x00\x01", mime_type="image/png"),
            Audio(data=b"\x00\x01", mime_type="audio/wav"),
            ResourceLink("x://y", "y"),
            Embedded(TextContents("x://y", "contents")),
        ],
        ids=lambda content: type(content).__name__,
    )
    async def test_content_is_content(self, content: Any):
        assert (await outcome(lambda: content)).content == [content]
        assert (await outcome(lambda: [content, content])).content == [content, content]

    async def test_content_may_be_mixed_with_what_becomes_text(self):
        result = await outcome(lambda: [Image(data=b"", mime_type="image/png"), "a caption", {"a": 1}])
        assert result.content[1:] == [Text("a caption"), Text('{"a":1}')]

    async def test_a_whole_result_goes_out_as_it_is(self):
        whole = CallToolResult([Text("x")], structured_content={"a": 1}, is_error=True, meta={"com.example/k": 1})
        result = await outcome(lambda: whole)
        assert (result.content, result.structured_content, result.is_error) == ([Text("x")], {"a": 1}, True)
        assert result.meta is not None
        assert result.meta["com.example/k"] == 1

    async def test_what_json_cannot_hold_is_a_failure_in_words(self):
        assert "cannot be written as JSON" in said(await outcome(object))


async def test_a_tool_with_scopes_is_there_for_everyone_where_there_are_no_tokens() -> None:
    server = Server("s")

    @server.tool(scopes=["weather:read"])
    def forecast() -> str:
        return "rain"

    async with Client(server) as client:
        assert [tool.name for tool in await client.tools()] == ["forecast"]
        assert (await client.call("forecast")).data == "rain"


class TestTextOnly:
    async def test_a_tool_that_is_not_structured_sends_text_only(self):
        def point() -> dict[str, int]:
            return {"x": 1}

        async with Client(offering(point, structured=False)) as client:
            assert (await client.tools())[0].output_schema is None
            result = await client.call("t")
        assert result.structured_content is msgspec.UNSET
        assert (result.text, len(result.content)) == ('{"x":1}', 1)

    async def test_no_output_schema_is_another_way_to_write_it(self):
        def point() -> dict[str, int]:
            return {"x": 1}

        for options in ({"structured": False}, {"output_schema": None}, {"structured": False, "output_schema": None}):
            async with Client(offering(point, **options)) as client:
                assert (await client.tools())[0].output_schema is None
                assert (await client.call("t")).content == [Text('{"x":1}')]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"structured": True, "output_schema": None}, "output_schema=None says the opposite of structured=True"),
            (
                {"structured": False, "output_schema": {"type": "object"}},
                "without structured content has no output_sch",
            ),
        ],
    )
    def test_contradicting_options_are_refused(self, options: dict[str, Any], message: str):
        with pytest.raises(LocalError, match=message):
            offering(dict, **options)
