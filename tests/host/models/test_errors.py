"""Endpoints that fail, are slow, break off or answer rubbish, and people who have heard enough; for both libraries."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dovetail.host.models.anthropic import AnthropicModel
from dovetail.host.models.contract import TextDelta
from dovetail.host.models.errors import ModelFailed
from dovetail.host.models.openai import OpenAIModel
from dovetail.host.models.remote import RemoteModel
from dovetail.host.models.stream_answer import full_answer
from dovetail.protocol.errors import ConnectionLost, DovetailError, InvalidAnswer, LocalError, ProtocolError, Timeout
from dovetail.types.client_features import CreateMessageParams, SamplingMessage
from dovetail.types.content import Text, ToolUse
from dovetail.types.errors import missing_extra
from tests.support.http import free_port
from tests.support.model_endpoint import Answer, anthropic_events, endpoint, failure, openai_events
from tests.support.tidy import nothing_left_on_the_loop

KEY = "sk-secret-0123456789abcdef"

Make = Callable[..., RemoteModel[Any]]


def openai_model(url: str, **options: Any) -> RemoteModel[Any]:
    return OpenAIModel("tiny", base_url=f"{url}/v1", **{"retries": 0, "api_key": KEY, **options})


def anthropic_model(url: str, **options: Any) -> RemoteModel[Any]:
    return AnthropicModel("tiny", base_url=url, **{"retries": 0, "api_key": KEY, **options})


def openai_words(*texts: str, reason: str | None = "stop") -> list[bytes]:
    return openai_events(*({"content": text} for text in texts), reason=reason)


def anthropic_words(*texts: str, reason: str | None = "stop") -> list[bytes]:
    ends = {"stop": "end_turn", None: None}
    return anthropic_events(*({"type": "text", "text": text} for text in texts), reason=ends[reason])


BOTH = pytest.mark.parametrize(
    ("make", "words"),
    [(openai_model, openai_words), (anthropic_model, anthropic_words)],
    ids=["openai", "anthropic"],
)
Words = Callable[..., list[bytes]]

HELLO = CreateMessageParams(messages=[SamplingMessage(role="user", content=Text(text="Hello"))], max_tokens=10)


async def fails(make: Make, *answers: Answer, **options: Any) -> DovetailError:
    async with endpoint(*answers) as told:
        one = make(told.url, **options)
        try:
            with pytest.raises(DovetailError) as caught:
                await full_answer(one, HELLO)
        finally:
            await one.close()
    return caught.value


@BOTH
@pytest.mark.parametrize("status", [400, 401, 404, 429, 503])
async def test_an_endpoint_that_says_no(make: Make, words: Words, status: int) -> None:
    problem = await fails(make, failure(status, f"No, {KEY} will not do\x1b[31m"))
    assert isinstance(problem, ModelFailed) and problem.status == status and problem.model == "tiny"
    assert f"({status}; " in str(problem) and "will not do" in str(problem)
    assert KEY not in str(problem) and "\x1b" not in str(problem)
    assert problem.__cause__ is None and problem.__suppress_context__


@BOTH
async def test_a_library_tries_again_as_often_as_it_is_told(make: Make, words: Words) -> None:
    async with endpoint(failure(503, "busy"), Answer(words("okay"))) as told:
        one = make(told.url, retries=1)
        assert (await full_answer(one, HELLO)).text == "okay"
        await one.close()
    assert len(told.asked) == 2


@BOTH
async def test_an_endpoint_that_is_silent(make: Make, words: Words) -> None:
    never = asyncio.Event()
    for pieces in ([never], [words("okay")[0], never]):
        problem = await fails(make, Answer(pieces), timeout=0.2)
        assert isinstance(problem, Timeout) and "timeout=" in str(problem)


@BOTH
async def test_nobody_there(make: Make, words: Words) -> None:
    one = make(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ConnectionLost, match="tiny cannot be reached"):
        await full_answer(one, HELLO)
    await one.close()


@BOTH
async def test_an_answer_that_breaks_off(make: Make, words: Words) -> None:
    half = [piece for piece in words("okay", reason=None) if b"[DONE]" not in piece]
    assert isinstance(await fails(make, Answer(half, breaks=True)), ConnectionLost)
    assert isinstance(await fails(make, Answer(half)), ConnectionLost)


@BOTH
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>Welcome to the hotel</html>", "text/html"),
        (b"", "text/event-stream"),
        (b"data: {not json\n\n", "text/event-stream"),
        (b"event: message_start\ndata: {not json\n\n", "text/event-stream"),
        (b'data: {"hello": "world"}\n\n', "text/event-stream"),
        (b'event: message_start\ndata: {"type": "message_start"}\n\n', "text/event-stream"),
        (b"data: 7\n\n", "text/event-stream"),
        (b"\xff\xfe\xfd", "text/event-stream"),
        (b'{"choices": []}', "application/json"),
    ],
)
async def test_rubbish(make: Make, words: Words, body: bytes, kind: str) -> None:
    problem = await fails(make, Answer([body], kind=kind))
    assert isinstance(problem, InvalidAnswer | ConnectionLost), repr(problem)


@BOTH
async def test_an_error_in_the_middle_of_a_stream(make: Make, words: Words) -> None:
    body = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    problem = await fails(make, Answer([words("okay")[0], body]))
    assert isinstance(problem, ModelFailed) and str(problem).endswith(": Overloaded")


@BOTH
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_key_and_no_word_goes_where_a_redirect_points(make: Make, words: Words, status: int) -> None:
    async with endpoint(Answer(words("mine now"))) as elsewhere:
        there = f"{elsewhere.url}/v1/messages"
        problem = await fails(make, Answer([], status=status, headers={"location": there}))
        assert isinstance(problem, ModelFailed) and problem.status == status and "base_url" in str(problem)
        assert elsewhere.asked == []


@BOTH
async def test_with_a_base_url_nothing_of_the_environment_goes_along(
    make: Make, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "not-for-you")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Work: not-for-you\nX-More: not-for-you")
    async with endpoint(Answer(words("okay"))) as told:
        one = make(told.url, api_key=None)
        await full_answer(one, HELLO)
        await one.close()
    assert "not-for-you" not in str(told.asked[0].headers)


@BOTH
def test_a_model_outlives_a_loop(make: Make, words: Words) -> None:
    async def main(one: RemoteModel[Any] | None) -> RemoteModel[Any]:
        async with endpoint(Answer(words("okay"))) as told:
            one = one or make(told.url)
            one.__dict__["_base_url"] = make(told.url).__dict__["_base_url"]  # the endpoint has another port now
            assert (await full_answer(one, HELLO)).text == "okay"
            await one.close()
            return one

    asyncio.run(main(asyncio.run(main(None))))


@BOTH
async def test_an_endless_answer_is_given_up(make: Make, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.host.models.delta_assembly.MAX_ANSWER", 1_000)
    problem = await fails(make, Answer(words(*["x" * 100] * 20)))
    assert isinstance(problem, InvalidAnswer) and "1,000 characters" in str(problem)


@BOTH
@pytest.mark.parametrize("how", ["close", "cancel", "break"])
async def test_who_has_heard_enough_closes_the_connection(make: Make, words: Words, how: str) -> None:
    never = asyncio.Event()
    first = [
        piece for piece in words("Hello there", reason=None) if b"[DONE]" not in piece and b"block_stop" not in piece
    ]
    async with endpoint(Answer([*first, never])) as told:
        one = make(told.url)
        begun = asyncio.Event()

        async def listen() -> None:
            async for event in one.respond(HELLO):
                assert isinstance(event, TextDelta)
                begun.set()
                if how == "break":
                    break

        if how == "close":
            events = one.respond(HELLO)
            assert isinstance(await anext(events), TextDelta)
            await events.aclose()
        else:
            task = asyncio.create_task(listen())
            await begun.wait()
            if how == "cancel":
                task.cancel()
            await asyncio.wait((task,))
        async with asyncio.timeout(5):
            await told.left.wait()
        await one.close()


@BOTH
async def test_a_closed_model_leaves_no_connection_open(make: Make, words: Words) -> None:
    async with endpoint(Answer(words("okay"))) as told:
        await full_answer(warm := make(told.url), HELLO)
        await warm.close()
        async with nothing_left_on_the_loop():
            one = make(told.url)
            await full_answer(one, HELLO)
            await one.close()
            assert (await full_answer(one, HELLO)).text == "okay"  # it opens again
            await one.close()


@BOTH
async def test_keys_are_not_logged(make: Make, words: Words, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with endpoint(Answer(words("okay")), failure(401, f"Wrong key {KEY}")) as told:
            one = make(told.url)
            await full_answer(one, HELLO)
            with pytest.raises(ModelFailed) as caught:
                await full_answer(one, HELLO)
            await one.close()
    sent = told.asked[0].headers
    assert KEY in sent.get("authorization", "") + sent.get("x-api-key", "")
    assert KEY not in repr(one) + repr(caught.value)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("dovetail")]
    assert not [line for line in ours if KEY in line]
    assert KEY not in caplog.text.replace(f"Wrong key {KEY}", "")  # what the endpoint itself says back, at DEBUG


@pytest.mark.parametrize("kind", [OpenAIModel, AnthropicModel])
async def test_without_a_key_the_error_says_where_one_goes(
    kind: type[RemoteModel], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    one = kind("tiny", retries=0)
    with pytest.raises(LocalError, match="api_key"):
        await full_answer(one, HELLO)


@pytest.mark.parametrize(("module", "kind"), [("openai", "OpenAIModel"), ("anthropic", "AnthropicModel")])
def test_a_missing_extra_says_what_to_install(module: str, kind: str) -> None:
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            sys.path_importer_cache.clear()
            sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
sys.meta_path.insert(0, Missing())
from dovetail.host.models.{module} import {kind}
assert "{module}" not in sys.modules and "httpx2" not in sys.modules
try:
    {kind}("tiny")
except Exception as problem:
    print(type(problem).__name__, problem)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"LocalError {missing_extra(module, 'The model tiny')}\n"


async def test_a_conversation_that_does_not_pair_up_reaches_no_model() -> None:
    use = SamplingMessage(role="assistant", content=ToolUse(id="1", name="a", input={}))
    one = openai_model("http://127.0.0.1:1")
    with pytest.raises(ProtocolError, match="Tool result missing"):
        await full_answer(one, CreateMessageParams(messages=[use], max_tokens=1))
