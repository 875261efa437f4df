"""Suggestions for arguments of prompts and variables of templates, on every revision."""

from typing import Any

import pytest

from dovetail import Client, Context, RemoteError, Server
from dovetail.protocol.errors import LocalError
from dovetail.protocol.revisions import REVISIONS
from dovetail.runtime.rate_limit import TOO_MANY_REQUESTS
from dovetail.server.features.completion import COMPLETIONS_AT_ONCE
from dovetail.types.messages import Completion
from tests.support.served import served

EVERY = pytest.mark.parametrize("name", REVISIONS)
LANGUAGES = ["ruby", "cpython", "python"]


def library(**options: Any) -> Server:
    server = Server("s", **options)
    server.prompt(lambda language, framework="none": "x", name="review")
    server.resource("repo://{owner}/{name}")(lambda owner, name: "x")
    server.resource("config://app")(lambda: "x")
    return server


class TestSuggesting:
    @EVERY
    async def test_for_a_prompt_in_order_of_relevance(self, name: str):
        server = library()

        @server.completion("review", "language")
        def languages(value: str) -> list[str]:
            return LANGUAGES

        async with Client(server, revision=name) as client:
            found = await client.complete("review", "language", "py")
            assert found == Completion(["python", "cpython", "ruby"], 3, False)

    @EVERY
    async def test_for_a_template_by_itself_or_by_a_uri_of_it(self, name: str):
        server = library()

        @server.completion("repo://{owner}/{name}", "owner")
        async def owners(value: str, context: dict[str, str]) -> list[str]:
            return [f"{value}!"]

        async with Client(server, revision=name) as client:
            for reference in ("repo://{owner}/{name}", "repo://ada/engine"):
                assert (await client.complete(reference, "owner", "a", debounce=0)).values == ["a!"]

    @EVERY
    async def test_it_knows_the_arguments_that_are_settled(self, name: str):
        server = library()

        @server.completion("review", "framework")
        def frameworks(typed: str, settled: dict[str, str], ctx: Context) -> list[str]:
            return [f"{settled.get('language')} on {ctx.revision}"]

        async with Client(server, revision=name) as client:
            found = await client.complete("review", "framework", "", context={"language": "python"})
            known = "python" if "context" in REVISIONS[name].known["CompleteParams"] else "None"
            assert found.values == [f"{known} on {name}"]

    @EVERY
    async def test_at_most_a_hundred_and_how_many_there_are(self, name: str):
        server = library()
        server.completion("review", "language")(lambda value: (f"l{number}" for number in range(250)))
        async with Client(server, revision=name) as client:
            found = await client.complete("review", "language", "l24")
            assert (len(found.values), found.total, found.has_more) == (100, 250, True)
            assert found.values[:3] == ["l24", "l240", "l241"]

    async def test_a_completion_made_by_hand_keeps_its_order(self):
        server = library()
        made = [Completion(["b", "a"], 7, True), Completion([str(n) for n in range(150)])]
        server.completion("review", "language")(lambda value: made.pop(0))
        async with Client(server) as client:
            assert await client.complete("review", "language", "a", debounce=0) == Completion(["b", "a"], 7, True)
            found = await client.complete("review", "language", "a", debounce=0)
            assert (found.values[-1], found.total, found.has_more) == ("99", 150, True)

    @EVERY
    async def test_an_argument_that_nobody_suggests_for_has_no_values(self, name: str):
        server = library()
        server.completion("review", "language")(lambda value: LANGUAGES)
        async with Client(server, revision=name) as client:
            assert await client.complete("review", "framework", "x") == Completion([], 0, False)


class TestRefusing:
    @EVERY
    async def test_a_server_that_completes_nothing_has_no_such_method(self, name: str):
        async with served(library(), name, opened=False) as caller:
            assert "completions" not in (await caller.open())["capabilities"]
            refusal = await caller.refusal(
                "completion/complete", ref={"type": "ref/prompt", "name": "review"}, argument={"name": "a", "value": ""}
            )
            assert refusal["code"] == -32601

    @EVERY
    @pytest.mark.parametrize(
        ("reference", "argument", "words"),
        [
            ("nobody", "language", "Unknown prompt: nobody"),
            ("review", "nothing", "has no argument 'nothing'; there are language, framework"),
            ("x://{y}", "y", "Unknown resource template: x://{y}"),
            ("repo://{owner}/{name}", "nothing", "has no argument 'nothing'; there are owner, name"),
            ("config://app", "x", "has no argument 'x'"),
        ],
    )
    async def test_what_is_not_there(self, name: str, reference: str, argument: str, words: str):
        server = library()
        server.completion("review", "language")(lambda value: LANGUAGES)
        async with Client(server, revision=name) as client:
            with pytest.raises(RemoteError) as error:
                await client.complete(reference, argument, "")
            assert error.value.code == -32602
            assert words in error.value.message

    @EVERY
    async def test_params_that_do_not_fit(self, name: str):
        server = library()
        server.completion("review", "language")(lambda value: LANGUAGES)
        async with served(server, name) as caller:
            good = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": ""}}
            await caller.result("completion/complete", **good)
            for bad in (
                {"ref": {"type": "ref/tool", "name": "x"}},
                {"argument": {"name": "x"}},
                {"argument": {"value": 5}},
            ):
                assert (await caller.refusal("completion/complete", **{**good, **bad}))["code"] == -32602

    @EVERY
    async def test_too_many_requests_are_refused_until_later(self, name: str):
        server = library(completion_rate=0.001)
        server.completion("review", "language")(lambda value: LANGUAGES)
        async with Client(server, revision=name) as client:
            for _ in range(int(COMPLETIONS_AT_ONCE)):
                await client.complete("review", "language", "", debounce=0)
            with pytest.raises(RemoteError, match="Too many completion requests") as error:
                await client.complete("review", "language", "", debounce=0)
            assert error.value.code == TOO_MANY_REQUESTS
            assert error.value.data["retryAfterMs"] > 0

    @pytest.mark.parametrize("result", [5, "text", [1], None])
    async def test_a_function_that_gives_no_strings_fails_its_own_request_only(self, result: Any):
        server = library()
        server.completion("review", "language")(lambda value: result)
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="something else than a list of strings") as error:
                await client.complete("review", "language", "")
            assert error.value.code == -32603
            await client.ping()

    async def test_a_function_that_crashes_too(self, caplog: pytest.LogCaptureFixture):
        server = library()
        server.completion("review", "language")(lambda value: 1 / 0)
        async with Client(server) as client:
            with pytest.raises(RemoteError, match="Completing 'language' failed: ZeroDivisionError"):
                await client.complete("review", "language", "")

    def test_a_function_that_cannot_be_asked(self):
        server = library()
        for bad in (lambda: ["a"], lambda a, b, c: ["a"]):
            with pytest.raises(LocalError, match="it takes what was typed"):
                server.completion("review", "language")(bad)

    def test_one_for_each(self):
        server = library()
        server.completion("review", "language")(lambda value: [])
        with pytest.raises(LocalError, match="already"):
            server.completion("review", "language")(lambda value: [])
