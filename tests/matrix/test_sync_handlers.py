"""Handlers that are plain functions report, log and ask with a `SyncContext`, on every revision."""

import sys
from typing import Any

import pytest

from dovetail import Client, TextContents, ToolFailed
from dovetail.client.elicitation import Elicitation
from dovetail.protocol.revisions import REVISIONS
from tests.matrix import blocking_server
from tests.matrix.connections import Place, Transport, connected

WITH_FORMS = [name for name, revision in REVISIONS.items() if revision.form != "absent"]
WITH_PAGES = [name for name, revision in REVISIONS.items() if "url" in revision.known.get("ElicitParams", ())]


def answer(question: Elicitation) -> Any:
    return "accept" if question.url else {"nights": 2} if "for" in question.message else {"value": "hello"}


def place(transport: Transport) -> Place:
    return Place(transport, blocking_server.build, (sys.executable, blocking_server.__file__))


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_a_plain_function_reports_logs_and_asks(transport: Transport, revision: str) -> None:
    logged: list[Any] = []
    reported: list[float] = []
    options: dict[str, Any] = {
        "on_elicit": answer,
        "on_sample": lambda params: "good day",
        "roots": ["file:///home"],
        "on_log": lambda level, data, logger: logged.append(data),
    }
    async with connected(place(transport), revision, **options) as (client, _, _):
        result = await client.call("book", city="Lima", progress=lambda done, total, text: reported.append(done))
        expected = {"nights": 2, "total": 2 * (99.5 + 9.95), "words": "good day", "roots": 1, "in a thread": True}
        assert result.data == pytest.approx(expected)
        [contents] = (await client.read("note://today")).contents
        assert isinstance(contents, TextContents) and contents.text == "today: hello"
        [message] = (await client.prompt("greet")).messages
        assert message.content.text == "Dear hello"  # type: ignore[union-attr]
        if revision in WITH_PAGES:
            assert (await client.call("pay")).text == "accept"
    assert reported == [1, 2, 3]
    assert logged == [{"message": "booking", "city": "Lima"}]


async def test_a_user_who_declines_is_told_from_one_who_accepts(revision: str) -> None:
    """Also where there are no forms: the error says that the revision has none."""
    async with connected(place("memory"), revision, on_elicit=lambda question: None) as (client, _, _):
        if revision in WITH_FORMS:
            assert (await client.call("book", city="Lima")).data == {"booked": False, "why": "decline"}
        else:
            with pytest.raises(ToolFailed, match=f"Revision {revision} has no elicitation"):
                await client.call("book", city="Lima")


async def test_a_call_that_asks_holds_no_thread_where_asking_ends_the_request() -> None:
    server = blocking_server.build()
    answered = 0

    def accept(question: Elicitation) -> Any:
        nonlocal answered
        answered += 1
        return {"value": "hello"}

    async with Client(server, revision="2026-07-28", on_elicit=accept) as client:
        for _ in range(100):
            await client.read("note://today")
    assert answered == 100
