"""`InputRequired` by hand: a handler that returns its questions and runs again with the answers."""

from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.protocol.errors import INVALID_PARAMS, MISSING_CAPABILITY, RemoteError
from dovetail.types.client_features import ElicitParams, ElicitRequest, InputRequired
from tests.support.asking import ENVELOPE, KEYS, Rounds, accept, asked

HANDSHAKE = "2025-11-25"


class Hand:
    """A tool that asks by hand, with a state that must stay a secret and a step that must run once."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.server = Server("hand", state_keys=KEYS)
        self.server.tool(self.sign)
        self.server.tool(self.mixed)
        self.server.tool(self.unchecked)
        self.server.tool(self.poll)
        self.server.prompt(self.greet)
        self.server.resource("note://one")(self.note)

    async def sign(self, ctx: Context, city: str = "Lima") -> str | InputRequired:
        self.ran.append("body")
        if "name" not in ctx.answers:
            return InputRequired({"name": ctx.ask.elicit(f"Who in {city}?", str)}, state=f"secret of {city}")
        return f"{ctx.answers['name'].content['value']} {ctx.state}"

    async def mixed(self, ctx: Context) -> str | InputRequired:
        number = await ctx.step("number", self.count)
        if "name" not in ctx.answers:
            return InputRequired({"name": ctx.ask.elicit("Who?", str)}, state="kept")
        age = await ctx.elicit("How old?", int)
        return f"{ctx.answers['name'].content['value']} {age.data} {number} {ctx.state}"

    def count(self) -> int:
        self.ran.append("step")
        return len(self.ran)

    async def unchecked(self, ctx: Context) -> InputRequired:
        return InputRequired({"made": ElicitRequest(ElicitParams("Sure?", {"type": "object", "properties": {}}))})

    async def poll(self, ctx: Context) -> str | InputRequired:
        turn = int(ctx.state or 0)
        return "there" if turn == 3 else InputRequired(state=str(turn + 1))

    async def greet(self, ctx: Context) -> Any:
        return ctx.answers["tone"].content["value"] if ctx.answers else self._tone(ctx)

    async def note(self, ctx: Context) -> Any:
        return ctx.answers["tone"].content["value"] if ctx.answers else self._tone(ctx)

    def _tone(self, ctx: Context) -> InputRequired:
        return InputRequired({"tone": ctx.ask.elicit("Tone?", str)})


def fill(question: Any) -> dict[str, Any]:
    return {"value": 7 if "old" in question.message else "Ann"}


@pytest.mark.parametrize("revision", [HANDSHAKE, ENVELOPE])
async def test_the_same_on_both_eras(revision: str) -> None:
    hand = Hand()
    async with Client(hand.server, revision=revision, on_elicit=fill) as client:
        assert (await client.call("sign", city="Oslo")).data == "Ann secret of Oslo"
        assert (await client.call("poll")).data == "there"
        assert (await client.prompt("greet")).messages[0].content.text == "Ann"  # type: ignore[union-attr]
        assert (await client.read("note://one")).contents[0].text == "Ann"  # type: ignore[union-attr]
    assert hand.ran == ["body", "body"]


async def test_the_state_is_sealed() -> None:
    hand, replica = Hand(), Hand()
    async with asked(hand.server) as client, asked(replica.server) as other:
        call = await Rounds.call(client, "sign", city="Oslo")
        assert "secret" not in call.state
        again = Rounds(client, "tools/call", {"name": "sign", "arguments": {"city": "Rome"}})
        assert (await again.refused(requestState=call.state)).code == INVALID_PARAMS
        assert (await again.refused(requestState="secret of Rome")).code == INVALID_PARAMS
        await call.answer("Bob", other)
        assert call.text == "Bob secret of Oslo"


async def test_a_handler_sees_only_answers_to_what_it_asked() -> None:
    hand = Hand()
    async with asked(hand.server) as client:
        sly = Rounds(client, "tools/call", {"name": "sign", "arguments": {}})
        await sly.send(inputResponses={"name": accept("Eve")})
        assert sly.messages == ["Who in Lima?"]
        await sly.send(requestState=sly.state, inputResponses={"other": accept("Eve")})
        assert sly.messages == ["Who in Lima?"]


async def test_by_hand_and_straight_in_one_handler() -> None:
    one, two, three = Hand(), Hand(), Hand()
    async with asked(one.server) as a, asked(two.server) as b, asked(three.server) as c:
        call = await Rounds.call(a, "mixed")
        await call.answer("Ann", b)
        assert call.messages == ["How old?"]
        await call.answer(7, c)
        assert call.text == "Ann 7 1 kept"
        assert [hand.ran for hand in (one, two, three)] == [["step"], [], []]


@pytest.mark.parametrize(("revision", "code"), [(HANDSHAKE, -32603), (ENVELOPE, MISSING_CAPABILITY)])
async def test_a_question_that_the_client_cannot_answer_is_not_sent(revision: str, code: int) -> None:
    async with Client(Hand().server, revision=revision) as client:
        with pytest.raises(RemoteError, match="does not support elicitation") as caught:
            await client.call("unchecked")
        assert caught.value.code == code


@pytest.mark.parametrize(("revision"), [HANDSHAKE, ENVELOPE])
async def test_rounds_without_end_have_an_end(revision: str) -> None:
    async with Client(Hand().server, revision=revision, on_elicit=lambda _: {}, max_rounds=100) as client:
        with pytest.raises(RemoteError, match="more than 32 times"):
            await client.call("unchecked")
