"""Our client with tasks of a server of the TypeScript SDK 1.x (2025-11-25)."""

import pytest

from dovetail import Client, Elicitation, TaskCancelled
from tests.interop.peers import node_program

pytestmark = pytest.mark.interop

REVISION = "2025-11-25"


def their_server() -> list[str]:
    """The server, over stdio."""
    return node_program("typescript_tasks_server.mjs")


def test_calls_wait_for_their_tasks() -> None:
    with Client.blocking(their_server(), revision=REVISION) as client:
        assert client.call("render", scene="sea").text == "rendered sea"
        failed = client.call("refuse", check=False)
        assert (failed.is_error, failed.text) == (True, "Not on a Sunday.")


async def test_a_question_of_a_task_is_answered() -> None:
    asked: list[str] = []

    def answer(question: Elicitation) -> dict[str, str]:
        asked.append(question.message)
        return {"style": "cubist"}

    async with Client(their_server(), revision=REVISION, on_elicit=answer) as client:
        assert (await client.call("paint")).text == "painted cubist"
    assert asked == ["Which style?"]


async def test_a_task_is_started_found_again_and_cancelled() -> None:
    async with Client(their_server(), revision=REVISION) as client:
        started = await client.start("render", scene="land")
        assert (await started.result()).text == "rendered land"
        task = await client.start("hold")
        assert task.status == "working"
        again = client.task(task.reference)
        await again.cancel()
        with pytest.raises(TaskCancelled):
            await task.result()
