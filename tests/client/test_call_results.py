"""Results as the type that the caller asks for, and arguments that share a name with an option of `call`."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from dovetail import (
    CallToolResult,
    Client,
    InvalidAnswer,
    InvalidParams,
    LocalError,
    PromptMessage,
    Server,
    Text,
    ToolFailed,
)
from dovetail.client.call_results import taken_as_option
from dovetail.protocol.revisions import REVISIONS

EVERY = pytest.mark.parametrize("revision", REVISIONS)


@dataclass
class Book:
    title: str
    year: int


class Shelf(msgspec.Struct):
    books: list[Book]


def library() -> Server:
    server = Server("library")

    @server.tool
    def search(text: str) -> list[Book]:
        return [Book(text, 1815)]

    @server.tool
    def shelf() -> Shelf:
        return Shelf([Book("Emma", 1815)])

    @server.tool
    def as_text(text: str) -> CallToolResult:
        return CallToolResult([Text(text)])

    @server.tool
    def fail() -> str:
        raise ValueError("no")

    @server.tool
    def timer(timeout: int, check: bool = False, arguments: str = "") -> str:
        return f"{timeout} {check} {arguments}"

    @server.prompt
    def wait(timeout: str) -> PromptMessage:
        return PromptMessage("user", Text(timeout))

    return server


@EVERY
async def test_data_is_of_the_type_that_the_caller_asks_for(revision: str):
    async with Client(library(), revision=revision) as client:
        books = await client.call("search", text="Emma", returns=list[Book])
        assert books.data == [Book("Emma", 1815)]
        assert (await client.call("shelf", returns=Shelf)).data.books == [Book("Emma", 1815)]
        assert (await client.call("search", text="Emma")).data == [{"title": "Emma", "year": 1815}]


async def test_a_result_without_data_is_read_from_its_text():
    async with Client(library()) as client:
        assert (await client.call("as_text", text='{"title":"Emma","year":1}', returns=Book)).data == Book("Emma", 1)
        assert (await client.call("as_text", text="5", returns=str)).data == "5"
        assert (await client.call("as_text", text="5", returns=int | None)).data == 5
        with pytest.raises(InvalidAnswer, match="Tool 'as_text' returned text, and no data that could be Book"):
            await client.call("as_text", text="Emma", returns=Book)


@EVERY
async def test_data_that_does_not_fit_is_an_invalid_answer_that_says_where(revision: str):
    async with Client(library(), revision=revision) as client:
        with pytest.raises(
            InvalidAnswer, match=r"'search' returned something else than list\[.*\[0\].*expected int, got object"
        ):
            await client.call("search", text="Emma", returns=list[int])


async def test_a_type_without_json_is_refused_by_name():
    async with Client(library()) as client:
        with pytest.raises(LocalError, match="JSON cannot be converted to Client"):
            await client.call("search", text="Emma", returns=Client)


async def test_a_failed_result_is_not_converted():
    async with Client(library()) as client:
        assert (await client.call("fail", returns=Book, check=False)).is_error


@EVERY
async def test_arguments_that_share_a_name_with_an_option_are_given_as_a_mapping(revision: str):
    async with Client(library(), revision=revision) as client:
        given: dict[str, Any] = {"timeout": 5, "check": True, "arguments": "x"}
        assert (await client.call("timer", arguments=given)).text == "5 True x"
        assert (await client.call("timer", given, timeout=9)).text == "5 True x"
        prompt = await client.prompt("wait", arguments={"timeout": "5"})
        assert prompt.messages[0].content == Text("5")
        with pytest.raises((ToolFailed, InvalidParams)) as caught:
            await client.call("timer", timeout=5)
        advice = "timeout= is an option of call, not an argument of the tool: "
        advice += 'write call("timer", arguments={"timeout": …})'
        assert str(caught.value).endswith(f"({advice})")
        with pytest.raises((ToolFailed, InvalidParams)) as caught:
            await client.call("timer")
        assert "option" not in str(caught.value)
        with pytest.raises(LocalError, match="arguments is the mapping of all arguments, not str"):
            await client.call("timer", arguments="x")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_a_blocking_client_asks_for_types_in_the_same_way():
    with Client.blocking(library()) as client:
        assert client.call("search", {"text": "Emma"}, returns=list[Book], meta={"a": 1}).data == [Book("Emma", 1815)]
        assert client.call("timer", arguments={"timeout": 5}).text == "5 False "
        assert client.prompt("wait", arguments={"timeout": "5"}).messages


@pytest.mark.parametrize(
    "problem",
    [
        'Invalid arguments for tool "x": the required property "meta" is missing',
        "1 validation error for x\nmeta\n  Field required",
        "Missing required argument: meta",
    ],
)
def test_the_words_of_other_validators_are_understood_too(problem: str):
    assert (taken_as_option(problem, "x", meta={}) or "").startswith("meta= is an option of call")
    assert taken_as_option(problem, "x", timeout=5) is None
    assert taken_as_option("the metadata is wrong", "x", meta={}) is None
