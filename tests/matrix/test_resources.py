"""Resources, templates and prompts on every revision and transport."""

import json

import pytest

from dovetail import Audio, BlobContents, Client, Embedded, Image, RemoteError, ResourceLink, Text, TextContents
from tests.matrix.everything import ICON, PIXEL, SOUND
from tests.support.oracle import Oracle


async def test_text_bytes_and_json_are_read(client: Client) -> None:
    [hello] = (await client.read("text://hello")).contents
    assert hello == TextContents("text://hello", "Hello!", "text/plain")
    [pixel] = (await client.read("blob://pixel")).contents
    assert pixel == BlobContents("blob://pixel", PIXEL, "image/png")
    [config] = (await client.read("json://config")).contents
    assert isinstance(config, TextContents) and config.mime_type == "application/json"
    assert json.loads(config.text) == {"debug": True, "levels": [1, 2]}


async def test_a_resource_may_have_several_contents(client: Client) -> None:
    contents = (await client.read("folder://all")).contents
    assert [item.uri for item in contents] == ["folder://all/a", "folder://all/b"]


async def test_a_template_gives_what_its_variables_say(client: Client, revision: str) -> None:
    [item] = (await client.read("item://42")).contents
    assert item == TextContents("item://42", f"item 42 on {revision}", "text/plain")
    [file] = (await client.read("repo://ada/src/deep/main.py")).contents
    assert isinstance(file, TextContents) and file.text == "src/deep/main.py of ada"


async def test_a_resource_says_of_itself_what_its_revision_knows(client: Client, revision: str) -> None:
    hello = {item.uri: item for item in await client.resources()}["text://hello"]
    assert (hello.name, hello.description, hello.mime_type, hello.size) == (
        "hello",
        "Give a greeting.",
        "text/plain",
        6,
    )
    assert hello.annotations is not None and hello.annotations.audience == ["assistant"]
    assert hello.title == ("Hello" if revision >= "2025-06-18" else None)
    assert hello.meta == ({"com.example/k": 1} if revision >= "2025-06-18" else None)
    assert hello.icons == ([ICON] if revision >= "2025-11-25" else None)


async def test_a_template_says_of_itself_what_its_revision_knows(client: Client, revision: str) -> None:
    item = {each.uri_template: each for each in await client.resource_templates()}["item://{number}"]
    assert (item.name, item.description, item.mime_type) == (
        "item",
        "Give an item by its number.",
        "text/plain",
    )
    assert item.title == ("Item" if revision >= "2025-06-18" else None)
    assert item.icons == ([ICON] if revision >= "2025-11-25" else None)


@pytest.mark.parametrize("uri", ["text://hello2", "item://", "repo://ada", "item://1/2", "mail:nobody"])
async def test_a_resource_that_is_not_there_has_the_code_of_its_revision(
    client: Client, revision: str, uri: str
) -> None:
    with pytest.raises(RemoteError) as error:
        await client.read(uri)
    assert error.value.code == (-32602 if revision == "2026-07-28" else -32002)
    assert error.value.data == {"uri": uri}


async def test_a_variable_that_does_not_fit_is_invalid_params(client: Client) -> None:
    with pytest.raises(RemoteError, match="number") as error:
        await client.read("item://many")
    assert error.value.code == -32602


async def test_a_crash_is_an_internal_error_that_hurts_only_its_call(client: Client) -> None:
    for crashing in (client.read("crash://now"), client.prompt("crash")):
        with pytest.raises(RemoteError, match="is on fire") as error:
            await crashing
        assert error.value.code == -32603
        assert "Traceback" not in error.value.message
    assert (await client.read("text://hello")).contents


async def test_a_prompt_is_filled_in(client: Client) -> None:
    result = await client.prompt("review", code="x = 1")
    [message] = result.messages
    assert (message.role, message.content) == ("user", Text("Review this python: x = 1"))
    assert result.description == "Ask for a review."


async def test_a_prompt_takes_its_arguments_as_text(client: Client) -> None:
    result = await client.prompt("conversation", times="2")
    assert [message.role for message in result.messages] == ["user", "assistant"] * 2


async def test_a_prompt_holds_every_kind_of_content_that_its_revision_knows(client: Client, revision: str) -> None:
    look, image, audio, link, embedded = [m.content for m in (await client.prompt("gallery")).messages]
    assert look == Text("look")
    assert image == Image(PIXEL, "image/png")
    if revision == "2024-11-05":
        assert isinstance(audio, Embedded) and isinstance(audio.resource, BlobContents)
        assert audio.resource.blob == SOUND
    else:
        assert audio == Audio(SOUND, "audio/wav")
    if revision < "2025-06-18":
        assert link == Text("hello: text://hello")
    else:
        assert link == ResourceLink("text://hello", "hello")
    assert embedded == Embedded(TextContents("text://hello", "Hello!", "text/plain"))


async def test_a_prompt_says_of_itself_what_its_revision_knows(client: Client, revision: str) -> None:
    review = {prompt.name: prompt for prompt in await client.prompts()}["review"]
    assert review.arguments is not None
    assert [(a.name, a.required, a.description) for a in review.arguments] == [
        ("code", True, "what to look at"),
        ("language", False, None),
    ]
    assert review.title == ("Review" if revision >= "2025-06-18" else None)
    assert review.icons == ([ICON] if revision >= "2025-11-25" else None)
    assert review.meta == ({"com.example/k": 1} if revision >= "2025-06-18" else None)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("reviews", {"code": "x"}),
        ("review", {}),
        ("review", {"code": "x", "tone": "kind"}),
        ("conversation", {"times": "many"}),
    ],
    ids=["unknown prompt", "missing argument", "unknown argument", "wrong argument"],
)
async def test_an_unknown_prompt_or_bad_arguments_are_invalid_params(
    client: Client, name: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(RemoteError) as error:
        await client.prompt(name, arguments)
    assert error.value.code == -32602


async def test_results_say_how_long_they_may_be_kept_where_the_revision_asks(
    client: Client, oracle: Oracle, revision: str
) -> None:
    await client.read("text://hello")
    await client.tools()
    for method in ("resources/read", "tools/list"):
        fields = oracle.result(method).keys() & {"ttlMs", "cacheScope", "resultType"}
        assert len(fields) == (3 if revision == "2026-07-28" else 0)
