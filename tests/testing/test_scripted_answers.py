"""Scripted answers, on the oldest revision that asks directly, the newest that does, and with rounds."""

import re

import pytest

from dovetail import Client, DovetailError, LocalError, Refused, ToolFailed
from dovetail.client.elicitation import Elicitation
from dovetail.testing import Script, UnexpectedQuestion
from dovetail.types.client_features import CreateMessageResult, ElicitResult
from dovetail.types.content import Text
from tests.testing.booking import booking

every_way = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])


@every_way
async def test_questions_get_the_answers_that_were_written_for_them(revision: str) -> None:
    script = Script().elicit("When", {"day": "Monday"}).elicit(re.compile(r"\d nights? in"), {"ok": True})
    async with Client(booking(), revision=revision, **script.options) as client:
        assert (await client.call("book", city="Lima")).data == "Lima on Monday"
    script.check()
    assert [(one.kind, one.text) for one in script.asked] == [
        ("elicit", "When do you arrive?"),
        ("elicit", "1 nights in Lima?"),
    ]
    assert script.asked[0].answer == {"day": "Monday"}
    assert isinstance(script.asked[0].question, Elicitation)
    assert script.unused == []


@every_way
async def test_questions_asked_together_find_their_answers_in_any_order(revision: str) -> None:
    script = Script().elicit("Two", {"day": "second"}).elicit("One", {"day": "first"})
    async with Client(booking(), revision=revision, **script.options) as client:
        assert (await client.call("both")).data == ["first", "second"]
    script.check()


@pytest.mark.parametrize("answer", ["decline", "cancel", None, ElicitResult("decline"), Refused("no")])
async def test_a_person_can_say_no(answer: object) -> None:
    script = Script().elicit("When", answer)  # type: ignore[arg-type]
    async with Client(booking(), **script.options) as client:
        assert (await client.call("book", city="Lima")).data == "no dates"
    script.check()


@every_way
async def test_a_function_answers_what_depends_on_the_question(revision: str) -> None:
    async def first(question: Elicitation) -> dict[str, str]:
        return {"day": question.message[:4]}

    script = Script().elicit("When", first).elicit(None, lambda question: {"ok": "Lima" in question.message})
    async with Client(booking(), revision=revision, **script.options) as client:
        assert (await client.call("book", city="Lima")).data == "Lima on When"
    script.check()


async def test_an_answer_holds_as_often_as_it_says() -> None:
    script = Script().elicit("When", {"day": "Monday"}, times=2).elicit(None, {"ok": False}, times=None)
    async with Client(booking(), **script.options) as client:
        for _ in range(2):
            assert (await client.call("book", city="Lima")).data == "not booked"
        script.check()
        with pytest.raises(UnexpectedQuestion):
            await client.call("book", city="Lima")


@every_way
async def test_the_model_and_the_roots_are_scripted_too(revision: str, tmp_path: object) -> None:
    script = Script().sample("hotel", "Grand").sample(None, CreateMessageResult("assistant", Text("Ritz"), "m"))
    script.roots(str(tmp_path))
    async with Client(booking(), revision=revision, **script.options) as client:
        assert (await client.call("suggest")).data == "Grand"
        assert (await client.call("suggest")).data == "Ritz"
        assert (await client.call("where")).data == 1
        script.roots()
        assert (await client.call("where")).data == 0
    script.check()
    assert [one.kind for one in script.asked] == ["sample", "sample", "roots", "roots"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_page_is_found_by_its_message_or_its_url(revision: str) -> None:
    script = Script().elicit("hotel.example").elicit("Sign in", "cancel")
    async with Client(booking(), revision=revision, **script.options) as client:
        assert (await client.call("sign_in")).data == "accept"
        assert (await client.call("sign_in")).data == "cancel"
    script.check()
    assert [one.text for one in script.asked] == ["Sign in, please"] * 2


async def test_what_a_script_cannot_do_the_server_must_do_without() -> None:
    script = Script(can=["sample"])
    async with Client(booking(), revision="2025-11-25", **script.options) as client:
        with pytest.raises(ToolFailed, match="does not support elicitation"):
            await client.call("book", city="Lima")
    with pytest.raises(LocalError, match="made without 'elicit'"):
        script.elicit("When", {})
    with pytest.raises(LocalError, match="not fly"):
        Script(can=["fly"])  # type: ignore[list-item]


@every_way
async def test_a_question_without_an_answer_fails_the_check(revision: str) -> None:
    script = Script().elicit("Where", {"day": "Monday"})
    async with Client(booking(), revision=revision, **script.options) as client:
        with pytest.raises((DovetailError, AssertionError)):
            await client.call("book", city="Lima")
    with pytest.raises(UnexpectedQuestion) as failure:
        script.check()
    assert "no answer to elicit 'When do you arrive?'; answers left: elicit 'Where'" in str(failure.value)
    assert "Nobody asked for this answer: elicit 'Where'" in str(failure.value)
    assert "Nothing was answered." in str(failure.value)


@every_way
async def test_an_answer_that_does_not_fit_its_form_fails_the_check(revision: str) -> None:
    script = Script().elicit("When", {"day": 5, "nights": "two"})
    async with Client(booking(), revision=revision, **script.options) as client:
        with pytest.raises((DovetailError, AssertionError)):
            await client.call("book", city="Lima")
    with pytest.raises(UnexpectedQuestion, match=r"does not fit its form: .*day.*nights"):
        script.check()


async def test_the_check_tells_of_answers_left_and_given() -> None:
    script = Script().elicit("When", "decline").elicit(re.compile("never"), {"ok": True}, times=3)
    async with Client(booking(), **script.options) as client:
        await client.call("book", city="Lima")
    with pytest.raises(AssertionError) as failure:
        script.check()
    assert str(failure.value).splitlines() == [
        "Nobody asked for this answer: elicit 'never' (3 times)",
        "Answered so far:",
        "  elicit 'When do you arrive?': 'decline'",
    ]
