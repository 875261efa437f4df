"""Prompts: arguments in, messages out."""

from typing import Any, Literal

import pytest

from dovetail import Client, Context, Image, LocalError, PromptArgument, PromptMessage, Server, Text
from dovetail.protocol.errors import RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.types.prompts import GetPromptResult

EVERY = pytest.mark.parametrize("name", REVISIONS)


async def messages(value: Any) -> GetPromptResult:
    server = Server("s")
    server.prompt(lambda: value, name="p", description="Some prompt.")
    async with Client(server) as client:
        return await client.prompt("p")


class TestMessages:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("hello", [PromptMessage("user", Text("hello"))]),
            (["a", "b"], [PromptMessage("user", Text("a")), PromptMessage("user", Text("b"))]),
            (("a",), [PromptMessage("user", Text("a"))]),
            (Image(data=b"x", mime_type="image/png"), [PromptMessage("user", Image(data=b"x", mime_type="image/png"))]),
            (PromptMessage("assistant", Text("a")), [PromptMessage("assistant", Text("a"))]),
            (
                ["a", PromptMessage("assistant", Text("b"))],
                [PromptMessage("user", Text("a")), PromptMessage("assistant", Text("b"))],
            ),
            ([], []),
        ],
    )
    async def test_of_whatever_the_function_returns(self, value: Any, expected: Any):
        result = await messages(value)
        assert result.messages == expected
        assert result.description == "Some prompt."

    async def test_a_whole_result_goes_out_as_it_is(self):
        whole = GetPromptResult([PromptMessage("user", Text("a"))], description="Mine.")
        assert (await messages(whole)).description == "Mine."

    @pytest.mark.parametrize("value", [5, None, {"a": 1}, ["a", 5]])
    async def test_what_cannot_be_a_message_is_an_error_in_words(self, value: Any):
        with pytest.raises(
            RemoteError, match=r"Prompt 'p' returned .*; it may return str, content or messages"
        ) as caught:
            await messages(value)
        assert caught.value.code == -32603


class TestArguments:
    def server(self) -> Server:
        server = Server("s")

        @server.prompt
        async def pack(city: str, ctx: Context, days: int = 3, mode: Literal["brief", "long"] = "brief") -> str:
            return f"{city} {days + 1} {mode} {ctx.revision}"

        return server

    @EVERY
    async def test_strings_become_what_the_hints_say(self, name: str):
        async with Client(self.server(), revision=name) as client:
            result = await client.prompt("pack", city="Lima", days="4", mode="long")
            assert [message.content for message in result.messages] == [Text(f"Lima 5 long {name}")]

    @EVERY
    @pytest.mark.parametrize(
        ("arguments", "named"),
        [({}, "city"), ({"city": "Lima", "days": "many"}, "days"), ({"city": "Lima", "colour": "red"}, "colour")],
    )
    async def test_missing_wrong_and_unknown_ones_are_invalid_params(
        self, name: str, arguments: dict[str, str], named: str
    ):
        async with Client(self.server(), revision=name) as client:
            with pytest.raises(RemoteError, match=f"Invalid arguments for prompt 'pack': .*{named}") as caught:
                await client.prompt("pack", arguments)
            assert caught.value.code == -32602

    @EVERY
    async def test_a_prompt_that_does_not_exist_is_invalid_params_with_a_guess(self, name: str):
        async with Client(self.server(), revision=name) as client:
            with pytest.raises(RemoteError, match=r"Unknown prompt: pak \(did you mean 'pack'\?\)") as caught:
                await client.prompt("pak")
            assert caught.value.code == -32602


ARGUMENTS = [PromptArgument("topic", description="What to explain.", required=True), PromptArgument("audience")]


class TestDeclaredArguments:
    @pytest.mark.parametrize(
        "function",
        [
            lambda **arguments: f"{arguments['topic']} {arguments.get('audience')}",
            lambda arguments: f"{arguments['topic']} {arguments.get('audience')}",
            lambda topic, audience=None: f"{topic} {audience}",
            lambda topic, **rest: f"{topic} {rest.get('audience')}",
        ],
        ids=["kwargs", "dict", "names", "both"],
    )
    async def test_they_are_listed_and_passed_in_the_form_that_the_function_takes(self, function: Any):
        server = Server("s")
        server.prompt(function, name="explain", arguments=ARGUMENTS)
        async with Client(server) as client:
            [prompt] = await client.prompts()
            assert [(a.name, a.description, a.required or False) for a in prompt.arguments or ()] == [
                ("topic", "What to explain.", True),
                ("audience", None, False),
            ]
            for arguments, text in (({"topic": "a"}, "a None"), ({"topic": "a", "audience": "b"}, "a b")):
                [message] = (await client.prompt("explain", arguments)).messages
                assert getattr(message.content, "text", None) == text
            for wrong in ({}, {"topic": "a", "colour": "b"}):
                with pytest.raises(RemoteError, match="-32602"):
                    await client.prompt("explain", wrong)

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda topic: "", "no parameter for audience"),
            (lambda topic, audience: "", "needs audience, which is declared as not required"),
            (lambda topic, mood, **rest: "", "needs mood, which is not one of its declared arguments"),
        ],
    )
    def test_a_function_that_they_do_not_fit_is_refused(self, function: Any, message: str):
        with pytest.raises(LocalError, match=message):
            Server("s").prompt(function, name="p", arguments=ARGUMENTS)
