"""Calls of a host that become tasks: waited for, left in the background, cancelled, and found again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.host.chat.events import ChatLimits, ToolFinished
from dovetail.host.consent.user_prompts import HostElicitation
from dovetail.host.host import Host
from dovetail.host.models.scripted import ScriptedModel, ScriptStep, ScriptToolUse
from dovetail.host.tasks.host_task import BackgroundResult, HostTask
from dovetail.policy.rules import Policy, Rule
from dovetail.protocol.errors import TaskCancelled, TaskNotFound
from dovetail.types.content import Text
from tests.host.hosting import QUICK, Somebody, records
from tests.support.http import free_port, listening, serving
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])


@dataclass
class Style:
    style: str


class Film:
    """A server whose tasks end when a test says so."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.gate = asyncio.Event()
        self.cancelled = 0
        self.server = server = Server("film", version="1")

        @server.tool(task="optional")
        async def render(ctx: Context) -> str:
            """Render."""
            await ctx.status("frame 1")
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return "rendered"

        @server.tool(task="optional")
        async def paint(ctx: Context) -> str:
            """Paint."""
            answer = await ctx.elicit("Which style?", Style)
            return f"painted {answer.content.style}" if answer.content is not None else f"not painted: {answer.action}"

        @server.tool
        async def title() -> str:
            """Return the title."""
            return "Harbour"

    @property
    def entry(self) -> ServerEntry:
        return ServerEntry(key="film", spec=LaunchSpec(kind="http", url=f"http://127.0.0.1:{self.port}/mcp"))

    @contextlib.asynccontextmanager
    async def hosted(self, folder: Path, person: Somebody, **options: Any) -> AsyncIterator[Host]:
        given = {"on_approve": person.approve, "on_event": person.heard, "policy": ALLOW, **options}
        async with Host([self.entry], folder=folder / "user", limits=QUICK, **given) as host:
            yield host


@contextlib.asynccontextmanager
async def filming(port: int | None = None) -> AsyncIterator[Film]:
    film = Film(free_port() if port is None else port)
    async with serving(film.server.asgi(path="/mcp"), listening(film.port)):
        yield film


async def test_a_call_waits_for_its_task_and_reports_its_status_as_progress(tmp_path: Path) -> None:
    async with filming() as film, film.hosted(tmp_path, Somebody()) as host:
        said: list[str | None] = []

        def progress(done: float, total: float | None, message: str | None) -> None:
            said.append(message)
            film.gate.set()

        assert (await host.call("film__render", progress=progress)).text == "rendered"
        assert said == ["frame 1"]
        [task] = host.tasks()
        assert (task.server, task.tool, task.status, task.is_ended) == ("film", "render", "completed", True)


async def test_the_audit_log_has_the_life_of_a_task_and_never_its_id(tmp_path: Path) -> None:
    person = Somebody()

    def answer(server: str, question: HostElicitation) -> Any:
        return {"style": "cubist"}

    async with filming() as film, film.hosted(tmp_path, person, on_elicit=answer) as host:
        task = await host.start("film__paint")
        assert (await task.result()).text == "painted cubist"
        task = await host.start("film__render")
        saved = (tmp_path / "user" / "tasks.json").read_text()
        await task.cancel()
        with pytest.raises(TaskCancelled):
            await task.result()
        noted = records(host.audit, "task", "question")
        steps = [(each["event"], each["details"].get("status")) for each in noted]
        assert steps == [
            ("task", "created"),
            ("question", None),
            ("task", "completed"),
            ("task", "created"),
            ("task", "cancelling"),
            ("task", "cancelled"),
        ]
        painting, rendering = noted[0]["details"]["task"], noted[3]["details"]["task"]
        assert [each["details"]["task"] for each in noted] == [painting] * 3 + [rendering] * 3
        from dovetail.client.tasks.reference import read_reference

        reference = saved.split('"reference": "')[1].split('"')[0]
        assert read_reference(reference).id not in host.audit.path.read_text()
        assert "reference" not in (tmp_path / "user" / "tasks.json").read_text()


async def test_a_stopped_call_cancels_its_task(tmp_path: Path) -> None:
    async with filming() as film, film.hosted(tmp_path, Somebody()) as host:
        calling = asyncio.ensure_future(host.call("film__render", check=False))
        await until(lambda: any(task.message == "frame 1" for task in host.tasks()))
        await host.stop()
        assert "The user stopped" in (await calling).text
        await until(lambda: film.cancelled == 1 and host.tasks()[0].status == "cancelled")


async def test_a_call_that_is_no_task_is_a_task_that_has_ended(tmp_path: Path) -> None:
    async with filming() as film, film.hosted(tmp_path, Somebody()) as host:
        task = await host.start("film__title")
        assert task.is_ended and (await task.result()).text == "Harbour"


async def test_a_task_is_found_again_after_a_restart_of_the_host(tmp_path: Path) -> None:
    async with filming() as film:

        async def never(server: str, question: HostElicitation) -> Any:
            await asyncio.Event().wait()

        async with film.hosted(tmp_path, Somebody(), on_elicit=never) as host:
            waiting = asyncio.ensure_future(host.call("film__render", check=False))
            await until(lambda: any(task.message == "frame 1" for task in host.tasks()))
            painting = await host.start("film__paint")
            await until(lambda: painting.status == "input_required")
        assert (await waiting).is_error and not film.cancelled
        asked: list[HostElicitation] = []

        def answer(server: str, question: HostElicitation) -> Any:
            asked.append(question)
            return {"style": "pop"}

        async with film.hosted(tmp_path, Somebody(), on_elicit=answer) as host:
            assert [(task.tool, task.status) for task in host.tasks()] == [
                ("render", "reattaching"),
                ("paint", "reattaching"),
            ]
            film.gate.set()
            await host.ready()
            rendering, painting = host.tasks()
            assert (await rendering.result()).text == "rendered"
            assert (await painting.result()).text == "painted pop"
            assert asked[0].task is painting
        async with film.hosted(tmp_path, Somebody()) as host:
            assert host.tasks() == []


async def test_an_id_is_not_told_to_another_server_of_the_same_name(tmp_path: Path) -> None:
    async with filming() as film, filming() as other:
        async with film.hosted(tmp_path, Somebody()) as host:
            await host.start("film__render")
        async with other.hosted(tmp_path, Somebody()) as host:
            assert host.tasks() == []


async def test_a_task_that_its_server_has_lost_ends(tmp_path: Path) -> None:
    async with filming() as film, film.hosted(tmp_path, Somebody()) as host:
        await host.start("film__render")
    async with filming(film.port) as film, film.hosted(tmp_path, Somebody()) as host:
        await host.ready()
        [task] = host.tasks()
        with pytest.raises(TaskNotFound):
            await task.result()
        assert task.status == "lost"


async def test_a_turn_goes_on_without_a_task_and_the_model_is_told_of_its_end(tmp_path: Path) -> None:
    steps = [ScriptStep(use=(ScriptToolUse("film__render"),)), "It is running.", "It is done."]
    model = ScriptedModel(steps)
    person = Somebody()
    async with filming() as film, film.hosted(tmp_path, person, models=[model]) as host:
        chat = host.chat(limits=ChatLimits(task_seconds=0.05))
        finished = [event async for event in chat.say("Render it") if isinstance(event, ToolFinished)]
        assert "goes on in the background, as task 1" in finished[0].result.text
        [task] = host.tasks()
        assert task.in_background and not task.is_ended
        film.gate.set()
        await task.result()
        async for _ in chat.say("And now?"):
            pass
        told = chat.messages[-2].content
        assert isinstance(told, list)
        words = [block.text for block in told if isinstance(block, Text)]
        assert words[0] == "[Task 1, a call of render of film that went on in the background, has ended: completed.]"
        assert "rendered" in words[1] and "from-server" in words[1] and words[2] == "And now?"
        events = [event.detail for event in person.of("task")]
        assert all(isinstance(each, HostTask) for each in events)


async def test_a_call_may_leave_its_task_in_the_background(tmp_path: Path) -> None:
    async with filming() as film, film.hosted(tmp_path, Somebody()) as host:
        result = await host.call("film__render", background_after=0.05)
        assert isinstance(result, BackgroundResult) and not result.is_error
        film.gate.set()
        assert (await result.task.result()).text == "rendered"
