"""Tasks for code without async."""

import subprocess
import sys

import pytest

from dovetail import Client, Context, LocalError, Server, TaskCancelled


def studio() -> Server:
    server = Server("studio")

    @server.tool(task="optional")
    async def render(scene: str, ctx: Context) -> str:
        await ctx.status(f"rendering {scene}")
        answer = await ctx.sample("Which style?", max_tokens=9)
        return f"{scene} in {answer.text}"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_task_is_followed_without_async(revision: str):
    with Client.blocking(studio(), revision=revision, on_sample=lambda _: "oil") as client:
        task = client.start("render", scene="town", returns=str)
        assert (task.tool, repr(task)) == ("render", "<BlockingTask 'render' working>")
        assert task.id is not None
        assert [update.status for update in task][-1] == task.status == "completed"
        assert task.result().data == "town in oil"
        assert task.message == task.refresh().message
        assert client.task(task.reference, returns=str).result().data == "town in oil"
        with pytest.raises(LocalError, match="does not list"):
            client.tasks()


def test_a_task_is_cancelled_without_async():
    with Client.blocking(studio(), on_sample=lambda _: "oil") as client:
        task = client.start("render", scene="town")
        task.cancel()
        with pytest.raises(TaskCancelled):
            task.result()


def test_a_call_in_this_process_has_no_reference():
    with Client.blocking(studio()) as client:
        task = client.start("add", a=1, b=2)
        assert task.result().data == 3
        with pytest.raises(LocalError, match="no reference"):
            assert task.reference


def test_a_client_without_tasks_imports_nothing_of_them():
    code = """
import asyncio, sys
from dovetail import Client, Server
server = Server("s")
@server.tool
def add(a: int, b: int) -> int: return a + b
async def main():
    async with Client(server) as client:
        await client.call("add", a=1, b=2)
asyncio.run(main())
print([name for name in sys.modules if name.startswith("dovetail.client.tasks")])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
