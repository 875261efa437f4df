"""Completions while somebody types."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.client.completion import MAX_ARGUMENTS, Debounce, complete_params
from dovetail.protocol.errors import Overtaken, RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.types.messages import PromptReference, ResourceReference
from tests.support.waiting import settled, until

EVERY = pytest.mark.parametrize("name", REVISIONS)


class Library:
    """A server that notes what it was asked, and may take its time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stopped: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.server = Server("s")
        self.server.prompt(lambda language, framework="": "x", name="review")
        self.server.completion("review", "language")(self.suggest)
        self.server.completion("review", "framework")(self.suggest)

    async def suggest(self, value: str) -> list[str]:
        self.asked.append(value)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.append(value)
            raise
        return [value + "!"]


class TestParams:
    @pytest.mark.parametrize(
        ("given", "reference"),
        [
            ("review", PromptReference("review")),
            ("file:///a", ResourceReference("file:///a")),
            ("urn:x:{y}", ResourceReference("urn:x:{y}")),
            (PromptReference("a://b"), PromptReference("a://b")),
            (ResourceReference("name"), ResourceReference("name")),
        ],
    )
    def test_what_a_reference_means(self, given: Any, reference: Any):
        params = complete_params(given, "a", "v", None)
        assert (params.ref, params.argument.name, params.argument.value, params.context) == (reference, "a", "v", None)

    def test_the_arguments_that_are_settled(self):
        context = complete_params("p", "a", "v", {"b": "c"}).context
        assert context is not None and context.arguments == {"b": "c"}


class TestDebounce:
    @EVERY
    async def test_the_first_goes_at_once_and_of_those_that_follow_the_last(self, name: str):
        library = Library()
        async with Client(library.server, revision=name) as client:
            assert (await client.complete("review", "language", "p", debounce=60)).values == ["p!"]
            typed = [
                asyncio.create_task(client.complete("review", "language", text, debounce=0.05))
                for text in ("py", "pyt")
            ]
            await settled()
            assert library.asked == ["p"]
            for task in typed:
                task.cancel()
            await asyncio.gather(*typed, return_exceptions=True)

    @EVERY
    async def test_the_overtaken_are_told_so_and_are_never_sent(self, name: str):
        library = Library()
        async with Client(library.server, revision=name) as client:
            texts = ["p", "py", "pyt", "pyth"]
            typed = [asyncio.create_task(client.complete("review", "language", text)) for text in texts]
            outcomes = await asyncio.gather(*typed, return_exceptions=True)
            assert library.asked == ["p", "pyth"]
            assert [isinstance(outcome, Overtaken) for outcome in outcomes] == [False, True, True, False]
            assert outcomes[-1].values == ["pyth!"]  # type: ignore[union-attr]

    @EVERY
    async def test_one_that_still_waits_for_its_answer_is_cancelled_at_the_server(self, name: str):
        library = Library()
        library.go.clear()
        async with Client(library.server, revision=name) as client:
            first = asyncio.create_task(client.complete("review", "language", "p", debounce=0.001))
            await until(lambda: library.asked == ["p"])
            await asyncio.sleep(0.002)
            second = asyncio.create_task(client.complete("review", "language", "py", debounce=0.001))
            with pytest.raises(Overtaken):
                await first
            await until(lambda: library.stopped == ["p"])
            library.go.set()
            assert (await second).values == ["py!"]

    @EVERY
    async def test_other_arguments_do_not_matter_and_none_matters_without_it(self, name: str):
        library = Library()
        async with Client(library.server, revision=name) as client:
            a, b = await asyncio.gather(
                client.complete("review", "language", "a"), client.complete("review", "framework", "b")
            )
            assert (a.values, b.values) == (["a!"], ["b!"])
            texts = ["c", "d", "e"]
            found = await asyncio.gather(*(client.complete("review", "language", text, debounce=0) for text in texts))
            assert [each.values for each in found] == [["c!"], ["d!"], ["e!"]]

    async def test_who_is_cancelled_is_cancelled(self):
        library = Library()
        library.go.clear()
        async with Client(library.server) as client:
            task = asyncio.create_task(client.complete("review", "language", "p"))
            await until(lambda: library.asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: library.stopped == ["p"])

    async def test_an_error_reaches_the_caller_and_ends_nothing(self):
        library = Library()
        async with Client(library.server) as client:
            with pytest.raises(RemoteError):
                await client.complete("nobody", "language", "p")
            assert (await client.complete("review", "language", "p")).values == ["p!"]

    async def test_what_is_remembered_has_a_bound(self):
        debounce = Debounce()

        async def send() -> int:
            return 1

        for number in range(MAX_ARGUMENTS + 10):
            assert await debounce.run(number, 1, send) == 1
        assert len(debounce._arguments) == MAX_ARGUMENTS
