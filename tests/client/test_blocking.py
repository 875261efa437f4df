"""The client for code without async: every method waits, and nothing of its loop is seen."""

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.client.blocking import BlockingClient
from dovetail.protocol.errors import ConnectionLost, LocalError, RemoteError, Timeout, ToolFailed
from dovetail.protocol.revisions import NEWEST, REVISIONS

WEATHER = [sys.executable, str(Path(__file__).parents[2] / "examples" / "weather.py")]
EVERY = pytest.mark.parametrize("name", REVISIONS)


def example() -> Server:
    server = Server("example", version="1", instructions="Ask.")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> None:
        raise ValueError("no")

    @server.tool
    async def count(to: int, ctx: Context) -> None:
        for n in range(to):
            await ctx.progress(n, to)

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    server.resource("x://y")(lambda: "contents")
    server.resource("x://{z}/t")(lambda z: z)
    server.prompt(lambda a: f"Say {a}", name="say")
    return server


class TestInMemory:
    @EVERY
    def test_everything_that_a_client_can_do(self, name: str):
        with Client.blocking(example(), revision=name) as client:
            assert client.revision == name
            assert client.server is not None
            assert client.server.name == "example"
            assert client.instructions == "Ask."
            assert client.capabilities.tools is not None
            assert [tool.name for tool in client.tools()] == ["add", "fail", "count", "wait"]
            assert [resource.uri for resource in client.resources()] == ["x://y"]
            assert [template.uri_template for template in client.resource_templates()] == ["x://{z}/t"]
            assert [prompt.name for prompt in client.prompts()] == ["say"]
            assert client.call("add", a=1, b=2).data == 3
            assert client.call("add", {"a": 1, "b": 2}).data == 3
            assert len(client.read("x://y").contents) == 1
            assert len(client.prompt("say", a="hi").messages) == 1
            client.ping()

    def test_errors_are_raised_here(self):
        with Client.blocking(example()) as client:
            with pytest.raises(ToolFailed, match="ValueError: no"):
                client.call("fail")
            with pytest.raises(RemoteError, match="Unknown tool"):
                client.call("nothing")
            with pytest.raises(Timeout, match=r"No answer to tools/call within 0.05 s"):
                client.call("wait", timeout=0.05)
            assert client.call("fail", check=False).is_error

    def test_progress_is_told_on_the_clients_own_thread(self):
        heard: list[tuple[float, str]] = []
        with Client.blocking(example()) as client:
            client.call("count", to=3, progress=lambda n, *_: heard.append((n, threading.current_thread().name)))
        assert heard == [(n, "dovetail-client") for n in range(3)]

    def test_a_callback_cannot_wait_for_the_client_that_calls_it(self):
        problems: list[Exception] = []

        with Client.blocking(example()) as client:

            def call_back(*_: Any) -> None:
                try:
                    client.call("add", a=1, b=2)
                except LocalError as problem:
                    problems.append(problem)

            client.call("count", to=1, progress=call_back)
        assert "cannot wait for that same client" in str(problems[0])

    def test_several_threads_may_use_one_client(self):
        results: list[int] = []
        with Client.blocking(example()) as client:

            def use(n: int) -> None:
                results.extend(client.call("add", a=n, b=k).data for k in range(20))

            threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted(results) == sorted(n + k for n in range(4) for k in range(20))

    def test_two_clients_may_use_one_server(self):
        server = example()
        with Client.blocking(server) as one, Client.blocking(server) as two:
            for n in range(20):
                assert one.call("add", a=n, b=1).data == n + 1
                assert two.call("add", a=n, b=2).data == n + 2


class TestLife:
    def test_not_open_it_says_how_to_open_it(self):
        client = Client.blocking(example())
        with pytest.raises(LocalError, match=r"use `with Client\.blocking"):
            client.tools()
        client.close()

    def test_opened_twice_it_complains(self):
        with Client.blocking(example()) as client, pytest.raises(LocalError, match="open already"):
            client.open()

    def test_closed_it_can_be_opened_again(self):
        client = Client.blocking(example())
        for _ in range(2):
            with client:
                assert client.call("add", a=1, b=2).data == 3
        client.close()

    def test_one_that_could_not_be_opened_is_not_open(self):
        client = Client.blocking("no-such-program-anywhere")
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="Could not start"):
                client.open()
        with pytest.raises(LocalError, match="not open"):
            client.tools()
        client.close()

    def test_options_that_make_no_sense_are_refused_when_it_is_opened(self):
        with pytest.raises(LocalError, match="There is no protocol revision"):
            Client.blocking(example(), revision="1900-01-01").open()

    def test_no_thread_and_no_task_is_left_behind(self, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.WARNING)
        steps: list[str] = []

        @asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[None]:
            steps.append("entered")
            yield
            steps.append("left")

        server = Server("s", lifespan=lifespan)

        @server.tool
        async def wait() -> None:
            await asyncio.Event().wait()

        with Client.blocking(server) as client:
            with pytest.raises(Timeout):
                client.call("wait", timeout=0.01)
            thread = client._thread  # pyright: ignore[reportPrivateUsage]
        assert steps == ["entered", "left"]
        assert thread is not None
        assert not thread.is_alive()
        assert caplog.text == ""

    def test_what_a_callback_started_is_ended_with_it(self):
        steps: list[str] = []

        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                steps.append("ended")

        async def start(*_: Any) -> None:
            tasks.append(asyncio.create_task(forever()))

        tasks: list[asyncio.Task[None]] = []
        with Client.blocking(example()) as client:
            client.call("count", to=1, progress=start)
            client.ping()
        assert len(tasks) == 1
        assert steps == ["ended"]

    def test_an_exception_within_the_block_closes_it(self):
        client = Client.blocking(example())
        with pytest.raises(RuntimeError, match="mine"), client:
            raise RuntimeError("mine")
        with pytest.raises(LocalError):
            client.ping()


class TestWithAProcess:
    def test_a_command_is_started_and_ended(self):
        with Client.blocking(WEATHER) as client:
            assert client.revision == NEWEST.name
            assert client.server is not None
            assert client.tools()
        with pytest.raises(LocalError):
            client.tools()

    @pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX are needed")
    def test_ctrl_c_cancels_the_call_at_the_server_too(self, tmp_path: Path):
        server = tmp_path / "server.py"
        server.write_text(
            "import asyncio, pathlib\n"
            "from dovetail import Server\n"
            "server = Server('s')\n"
            "@server.tool\n"
            "async def wait(mark: str) -> None:\n"
            "    pathlib.Path(mark).write_text('begun')\n"
            "    try:\n"
            "        await asyncio.Event().wait()\n"
            "    finally:\n"
            "        pathlib.Path(mark).write_text('cancelled')\n"
            "server.run()\n"
        )
        mark = tmp_path / "mark"

        def interrupt() -> None:
            while not mark.exists() or mark.read_text() != "begun":
                time.sleep(0.01)
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)

        with Client.blocking([sys.executable, str(server)]) as client:
            assert isinstance(client, BlockingClient)
            threading.Thread(target=interrupt, daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                client.call("wait", mark=str(mark))
            client.ping()
            assert mark.read_text() == "cancelled"


class TestTheRest:
    def server(self) -> Server:
        server = Server("s")
        server.prompt(lambda language: language, name="review")
        server.completion("review", "language")(lambda value: ["ruby", "python"])
        server.resource("x://y")(lambda: "x")

        @server.tool
        async def touch() -> None:
            server.notify_resource_updated("x://y")

        return server

    def test_completing(self):
        with Client.blocking(self.server()) as client:
            assert client.complete("review", "language", "py").values == ["python", "ruby"]

    def test_watching(self):
        with Client.blocking(self.server()) as client:
            changes = client.watch("x://y")
            stop = threading.Event()

            def touch() -> None:
                while not stop.wait(0.01):
                    client.call("touch")

            thread = threading.Thread(target=touch)
            thread.start()
            try:
                assert next(changes).uri == "x://y"
            finally:
                stop.set()
                thread.join()
            changes.close()
            with pytest.raises(LocalError, match="nothing to watch"):
                next(client.watch())

    def test_restarting(self):
        with Client.blocking(self.server()) as client:
            client.restart()
            client.ping()
