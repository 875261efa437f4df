"""What servers ask for, on both eras."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail.client.elicitation import Elicitation
from dovetail.host.consent.server_requests import concerns_of
from dovetail.host.error_results import RefusedResult
from dovetail.host.models.contract import Traits
from dovetail.host.models.scripted import ScriptedModel
from dovetail.policy.approval_questions import (
    No,
    Question,
    Reply,
    RootsQuestion,
    SamplingAnswerQuestion,
    SamplingQuestion,
    Yes,
)
from dovetail.policy.rules import Policy, Rule
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Text
from tests.host.hosting import Somebody, entry, hosting, records
from tests.support.waiting import until

ERAS = ("2025-11-25", "2026-07-28")
ALLOW = Policy([Rule("allow", kind="*")])
eras = pytest.mark.parametrize("era", ERAS)


def asking(era: str) -> Any:
    return entry("asker", "asking.py", era)


@eras
class TestSampling:
    async def test_the_person_sees_the_prompt_and_the_answer_and_may_edit_both(self, tmp_path: Path, era: str) -> None:
        def answer(question: Question) -> Reply:
            if isinstance(question, SamplingQuestion):
                params = question.params.__class__([SamplingMessage("user", Text("edited prompt"))], 5)
                return Yes(params=params)
            return True

        heard: list[Any] = []

        def said(params: Any) -> str:
            heard.append(params)
            return "the answer"

        person = Somebody(answer)
        async with hosting(tmp_path, asking(era), person=person, models=[ScriptedModel([said])]) as host:
            result = await host.call("asker__think")
            assert result.data == "scripted: the answer"
            first, second = person.asked[-2:]
            assert isinstance(first, SamplingQuestion)
            assert first.server == "asker"
            assert first.params.system_prompt == "Be brief."
            assert not first.wants_context
            assert isinstance(second, SamplingAnswerQuestion)
            assert second.answer.text == "the answer"
            assert heard[0].messages[0].content.text == "edited prompt"
            assert heard[0].system_prompt is None
        kinds = [record["details"]["kind"] for record in records(host.audit, "sampling")]
        assert kinds == ["sampling", "sampling-answer"]

    async def test_a_refusal(self, tmp_path: Path, era: str) -> None:
        def answer(question: Question) -> Reply:
            return No(reason="too costly") if isinstance(question, SamplingAnswerQuestion) else True

        person = Somebody(answer)
        async with hosting(tmp_path, asking(era), person=person, models=[ScriptedModel(["secret"])]) as host:
            result = await host.call("asker__think", check=False)
            assert result.is_error
            assert "secret" not in str(result)
            assert (await host.call("asker__folders", check=False)).is_error, "there are no folders to tell of"

    async def test_the_preferred_model_is_asked(self, tmp_path: Path, era: str) -> None:
        models = [
            ScriptedModel(["a"], name="slow", traits=Traits(clever=0.1)),
            ScriptedModel(["b"], name="other", traits=Traits(clever=0.9)),
        ]
        async with hosting(tmp_path, asking(era), policy=ALLOW, models=models) as host:
            assert (await host.call("asker__think")).data == "slow: a"

    async def test_without_models_servers_are_told_that_there_are_none(self, tmp_path: Path, era: str) -> None:
        async with hosting(tmp_path, asking(era), policy=ALLOW) as host:
            result = await host.call("asker__think", check=False)
            assert "does not support sampling" in result.text


@eras
class TestElicitation:
    async def test_the_questions_of_a_task_are_those_of_a_call(self, tmp_path: Path, era: str) -> None:
        asked: list[str] = []

        async def elicit(server: str, question: Elicitation) -> Any:
            asked.append(server)
            return {"name": "Ada"}

        async with hosting(tmp_path, asking(era), policy=ALLOW, on_elicit=elicit) as host:
            assert (await host.call("asker__greet_later")).data == "Ada"
        assert asked == ["asker"]
        assert len(records(host.audit, "elicitation")) == 1

    async def test_the_question_names_the_key_of_the_server(self, tmp_path: Path, era: str) -> None:
        asked: list[tuple[str, Elicitation]] = []

        async def elicit(server: str, question: Elicitation) -> Any:
            asked.append((server, question))
            return {"name": "Ada"} if question.mode == "form" else "accept"

        async with hosting(tmp_path, asking(era), policy=ALLOW, on_elicit=elicit) as host:
            assert (await host.call("asker__greet")).data == "Ada"
            assert (await host.call("asker__visit")).data == "accept"
        assert [(server, each.mode, each.url) for server, each in asked] == [
            ("asker", "form", None),
            ("asker", "url", "https://example.com/sign-in?a=1"),
        ]
        answers = [(record["by"], record["details"]["answer"]) for record in records(host.audit, "elicitation")]
        assert answers == [("person", "accept"), ("person", "accept")]

    async def test_a_rule_may_forbid_it(self, tmp_path: Path, era: str) -> None:
        async def elicit(server: str, question: Elicitation) -> Any:
            raise AssertionError("nobody was to be asked")

        policy = Policy([Rule("deny", kind="elicitation", server="asker"), Rule("allow", kind="*")])
        async with hosting(tmp_path, asking(era), policy=policy, on_elicit=elicit) as host:
            assert (await host.call("asker__greet")).data == "decline"
        assert [record["by"] for record in records(host.audit, "refusal")] == ["policy"]

    async def test_a_stop_withdraws_it(self, tmp_path: Path, era: str) -> None:
        person = Somebody()

        async def elicit(server: str, question: Elicitation) -> Any:
            await asyncio.sleep(60)

        options: dict[str, Any] = {"policy": ALLOW, "on_elicit": elicit, "on_event": person.heard}
        async with hosting(tmp_path, asking(era), **options) as host:
            call = asyncio.create_task(host.call("asker__greet", check=False))
            await until(lambda: person.of("question"))
            await host.stop()
            assert isinstance(await call, RefusedResult)
            await until(lambda: person.of("withdrawn"))
            assert (await host.call("asker__folders", check=False)).is_error


@eras
class TestRoots:
    async def test_folders_are_told_of_with_consent(self, tmp_path: Path, era: str) -> None:
        person = Somebody()
        async with hosting(tmp_path, asking(era), person=person, roots=[tmp_path]) as host:
            assert (await host.call("asker__folders")).data == [tmp_path.as_uri()]
            asked = person.asked[-1]
            assert asked == RootsQuestion(server="asker", roots=(str(tmp_path),))
        assert [record["by"] for record in records(host.audit, "roots")] == ["person"]

    async def test_roots_that_the_user_refuses_are_not_sent(self, tmp_path: Path, era: str) -> None:
        person = Somebody(lambda question: not isinstance(question, RootsQuestion))
        async with hosting(tmp_path, asking(era), person=person, roots=[tmp_path]) as host:
            result = await host.call("asker__folders", check=False)
            assert result.is_error
            assert tmp_path.as_uri() not in str(result)


class TestConcerns:
    @pytest.mark.parametrize(
        "field",
        [
            {"password": {"type": "string"}},
            {"api_key": {"type": "string"}},
            {"field1": {"type": "string", "title": "Your password"}},
            {"field1": {"type": "string", "description": "the Token of your account"}},
            {"field1": {"type": "string", "format": "password"}},
        ],
    )
    def test_fields_that_ask_for_secrets(self, field: dict[str, Any]) -> None:
        form = {"type": "object", "properties": field}
        assert len(concerns_of(Elicitation("Please", "form", form))) == 1

    def test_words_that_ask_for_secrets(self) -> None:
        form = {"type": "object", "properties": {"value": {"type": "string"}}}
        assert concerns_of(Elicitation("Enter your PASSWORD", "form", form))
        assert not concerns_of(Elicitation("Enter your name", "form", form))
        assert not concerns_of(Elicitation("Enter your password", "url", None, "https://example.com"))
