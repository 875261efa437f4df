"""Pages that users are sent to: ids, the news that a visit is over, and calls that need one first."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Refused, Server, ToolFailed
from dovetail.protocol.errors import MISSING_CAPABILITY, URL_ELICITATION_REQUIRED, RemoteError, URLElicitationRequired
from dovetail.server.features import url_elicitation as visits_module
from dovetail.server.features.url_elicitation import COMPLETE, UrlElicitations
from tests.support.asking import ENVELOPE, Rounds, asked
from tests.support.http import serving
from tests.support.oracle import Oracle
from tests.support.raw_http import Session, Site
from tests.support.waiting import until

NAMED, FORMS_ONLY, BEFORE = "2025-11-25", "2025-06-18", "2025-03-26"
URL = "https://bank.example/in"


class Bank:
    """A server whose tools need their user to sign in on a page."""

    def __init__(self) -> None:
        self.server = Server("bank")
        self.signed_in = False
        self.runs = 0
        for function in (self.sign_in, self.balance, self.plain_balance):
            self.server.tool(function)
        self.server.prompt(self.letter)
        self.server.resource("bank://balance")(self.paper)

    async def sign_in(self, ctx: Context, id: str | None = None) -> list[Any]:
        answer = await ctx.elicit_url("Sign in", URL, id=id)
        ctx.elicitation_complete(answer.id)
        return [answer.action, answer.id]

    async def balance(self, ctx: Context) -> int:
        return self._balance()

    async def plain_balance(self) -> int:
        return self._balance()

    async def letter(self) -> str:
        return f"You have {self._balance()}"

    async def paper(self) -> str:
        return f"You have {self._balance()}"

    def _balance(self) -> int:
        self.runs += 1
        if not self.signed_in:
            raise URLElicitationRequired("Sign in first", URL, id="visit 1")
        return 100


def open_page(question: Any) -> Any:
    assert (question.mode, question.url) == ("url", URL)
    return "accept"


async def test_a_visit_has_an_id_and_its_end_is_told() -> None:
    oracle = Oracle()
    async with Client(Bank().server, revision=NAMED, on_elicit=open_page, trace=oracle) as client:
        action, id = (await client.call("sign_in")).data
        [question] = oracle.sent_by("server", "elicitation/create")
        assert question.params["elicitationId"] == id
        [news] = oracle.sent_by("server", COMPLETE)
        assert (action, news.params) == ("accept", {"elicitationId": id})
        assert (await client.call("sign_in", id="mine")).data == ["accept", "mine"]
        ids = [each.params["elicitationId"] for each in oracle.sent_by("server", "elicitation/create")]
        assert len(set(ids)) == 2 and ids[1] == "mine"
    oracle.verdict()


async def test_later_visits_have_no_id_on_the_wire() -> None:
    oracle = Oracle()
    async with Client(Bank().server, revision=ENVELOPE, on_elicit=open_page, trace=oracle) as client:
        assert (await client.call("sign_in", id="mine")).data == ["accept", None]
        assert not oracle.sent_by("server", COMPLETE)
    oracle.verdict()


async def test_only_the_client_that_was_asked_is_told() -> None:
    bank, one, two = Bank(), Oracle(), Oracle()
    async with (
        Client(bank.server, revision=NAMED, on_elicit=open_page, trace=one) as client,
        Client(bank.server, revision=NAMED, on_elicit=open_page, trace=two) as other,
    ):
        await client.call("sign_in")
        await other.ping()
        assert len(one.sent_by("server", COMPLETE)) == 1
        assert not two.sent_by("server", COMPLETE)


async def test_the_news_may_come_from_another_thread_and_comes_once() -> None:
    bank, oracle = Bank(), Oracle()
    async with asked(bank.server, NAMED, trace=oracle) as client:
        await Rounds(client, "tools/call", {"name": "balance", "arguments": {}}).refused()
        threads = [
            threading.Thread(target=bank.server.notify_elicitation_complete, args=(id,))
            for id in ("visit 1", "visit 1", "unknown", None)
        ]
        for thread in threads:
            thread.start()
            await asyncio.to_thread(thread.join)
        await client.ping()
        assert [news.params for news in oracle.sent_by("server", COMPLETE)] == [{"elicitationId": "visit 1"}]
    oracle.verdict()


async def test_visits_keep_no_connection_alive_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits_module, "MAX_OPEN", 2)

    told: list[str] = []

    class Line:
        def notify(self, method: str, params: dict[str, Any]) -> None:
            told.append(params["elicitationId"])

    visits, line, gone = UrlElicitations(), Line(), Line()
    for id in ("old", "kept"):
        await visits.begin(id, line, None)  # type: ignore[arg-type]
    await visits.begin("gone", gone, None)  # type: ignore[arg-type]
    del gone
    gc.collect()
    for id in ("old", "kept", "gone"):
        visits.complete(id)
    await asyncio.sleep(0)
    assert told == ["kept"]


@pytest.mark.parametrize("tool", ["balance", "plain_balance"])
async def test_a_call_that_needs_a_visit_first_is_refused_with_the_page(tool: str) -> None:
    bank, oracle = Bank(), Oracle()
    async with asked(bank.server, NAMED, trace=oracle) as client:
        problem = await Rounds(client, "tools/call", {"name": tool, "arguments": {}}).refused()
        page = {"mode": "url", "url": URL, "message": "Sign in first", "elicitationId": "visit 1"}
        assert (problem.code, problem.message) == (URL_ELICITATION_REQUIRED, "Sign in first")
        assert problem.data == {"elicitations": [page]}
        bank.server.notify_elicitation_complete("visit 1")
        await client.ping()
        assert len(oracle.sent_by("server", COMPLETE)) == 1
    oracle.verdict()


@pytest.mark.parametrize("revision", [NAMED, ENVELOPE])
async def test_our_client_goes_there_and_calls_again(revision: str) -> None:
    bank, oracle = Bank(), Oracle()

    def go(question: Any) -> Any:
        bank.signed_in = True
        bank.server.notify_elicitation_complete(question.id)
        return open_page(question)

    async with Client(bank.server, revision=revision, on_elicit=go, trace=oracle) as client:
        for use in (
            lambda: client.call("balance"),
            lambda: client.call("plain_balance"),
            lambda: client.prompt("letter"),
            lambda: client.read("bank://balance"),
        ):
            bank.signed_in, bank.runs = False, 0
            assert "100" in str(await use())
            assert bank.runs == 2
    oracle.verdict()


@pytest.mark.parametrize("tool", ["balance", "plain_balance"])
async def test_who_does_not_go_there_is_not_asked_again(tool: str) -> None:
    bank = Bank()
    async with Client(bank.server, revision=ENVELOPE, on_elicit=lambda _: None) as client:
        with pytest.raises(ToolFailed, match=r"did not agree to open https://bank\.example/in"):
            await client.call(tool)
        assert bank.runs == 2


async def test_who_is_not_done_there_is_asked_again() -> None:
    bank, visits = Bank(), list[str]()

    def go(question: Any) -> Any:
        visits.append(question.url)
        bank.signed_in = len(visits) == 3
        return "accept"

    async with Client(bank.server, revision=ENVELOPE, on_elicit=go) as client:
        assert (await client.call("balance")).data == 100
        assert len(visits) == 3


@pytest.mark.parametrize("revision", [NAMED, FORMS_ONLY, BEFORE, ENVELOPE])
@pytest.mark.parametrize("tool", ["balance", "plain_balance", "sign_in"])
async def test_a_client_that_cannot_open_pages_is_not_asked_to(revision: str, tool: str) -> None:
    bank = Bank()
    options = {"on_elicit": lambda _: {}, "elicit_modes": ["form"], "trace": (oracle := Oracle())}
    async with Client(bank.server, revision=revision, **options) as client:
        with pytest.raises(
            (RemoteError, ToolFailed), match=r"does not support elicitation by URL|has no elicitation"
        ) as caught:
            await client.call(tool)
        if revision == ENVELOPE:
            assert isinstance(caught.value, RemoteError)
            assert caught.value.code == MISSING_CAPABILITY
            assert caught.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
        else:
            assert isinstance(caught.value, ToolFailed)
    assert not oracle.sent_by("server", "elicitation/create")
    oracle.verdict()


@asynccontextmanager
async def replicas(number: int, store: Path) -> AsyncIterator[list[tuple[Bank, Site]]]:
    """Several applications with one store, each with a bank of its own."""
    async with AsyncExitStack() as stack:
        running: list[tuple[Bank, Site]] = []
        for _ in range(number):
            bank = Bank()
            url = await stack.enter_async_context(serving(bank.server.asgi(store=str(store))))
            running.append((bank, await stack.enter_async_context(Site(url))))
        yield running


async def test_the_completion_at_one_replica_reaches_the_stream_at_another_once(tmp_path: Path) -> None:
    async with replicas(3, tmp_path / "store") as [(_, asked_at), (_, listens_at), (completes, site)]:
        session = await asked_at.session(NAMED, elicitation={"url": {}})
        stream = await Session(listens_at, NAMED, session.id).get()
        await site.modern("tools/list")  # an application joins the others with its first request
        assert (await (await session.call("balance")).answer())["error"]["code"] == URL_ELICITATION_REQUIRED
        for _ in range(3):
            completes.server.notify_elicitation_complete("visit 1")
        assert (await stream.message())["params"] == {"elicitationId": "visit 1"}
        completes.server.notify_tools_changed()
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_the_completion_arrives_when_the_replica_that_asked_has_ended(tmp_path: Path) -> None:
    async with replicas(1, tmp_path / "store") as [(bank, site)]:
        async with replicas(1, tmp_path / "store") as [(_, other)]:
            session = await other.session(NAMED, elicitation={"url": {}})
            assert (await (await session.call("balance")).answer())["error"]["code"] == URL_ELICITATION_REQUIRED
        stream = await Session(site, NAMED, session.id).get()
        bank.server.notify_elicitation_complete("visit 1")
        assert (await stream.message())["params"] == {"elicitationId": "visit 1"}


async def test_a_client_with_a_connection_of_its_own_hears_of_a_completion_at_another_replica(tmp_path: Path) -> None:
    oracle = Oracle()
    async with replicas(2, tmp_path / "store") as [(_, site), (other, elsewhere)]:
        await elsewhere.modern("tools/list")
        url = f"{site.url.replace('http', 'ws', 1)}/mcp/ws"
        async with Client(url, revision=NAMED, on_elicit=lambda _: "cancel", trace=oracle) as client:
            with pytest.raises(Refused):
                await client.call("balance")
            other.server.notify_elicitation_complete("visit 1")
            await until(lambda: oracle.sent_by("server", COMPLETE))
            await client.ping()
        assert [news.params for news in oracle.sent_by("server", COMPLETE)] == [{"elicitationId": "visit 1"}]
