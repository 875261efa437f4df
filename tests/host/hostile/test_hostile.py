"""Servers that mean harm: each is contained and recorded, and the servers beside it go on as if nothing were."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.client.elicitation import Elicitation
from dovetail.host.consent.user_prompts import HostElicitation
from dovetail.host.host import Host
from dovetail.host.models.scripted import ScriptedModel
from dovetail.policy.approval_questions import (
    DefinitionQuestion,
    Question,
    Reply,
    SamplingAnswerQuestion,
    SamplingQuestion,
    Yes,
)
from dovetail.policy.rules import Policy, Rule
from dovetail.protocol.errors import Refused
from dovetail.types.client_features import SamplingMessage
from tests.host.hosting import HOSTILE, QUICK, Somebody, entry, hosting, records
from tests.support.waiting import until

VILLAIN = HOSTILE / "villain.py"


@contextlib.asynccontextmanager
async def beside(folder: Path, role: str, person: Somebody | None = None, **options: Any) -> AsyncIterator[Host]:
    """A villain and a good server under one host; before and after, the good one works at once."""
    someone = person or Somebody()
    async with hosting(folder, entry("evil", VILLAIN, role), entry("good"), person=someone, **options) as host:
        await host.ready("good")
        yield host
        began = time.monotonic()
        assert "good__add" in [tool.name for tool in await host.tools()]
        assert (await host.call("good__add", a=1, b=2)).data == 3
        assert time.monotonic() - began < 2
        assert host.servers["good"].restarts == 0


def called(host: Host) -> bool:
    """Whether a tool of the villain has run."""
    return any(line.text == "CALLED" for line in host.logs("evil"))


def misconduct(host: Host) -> str:
    """What the record says that the villain did wrong; each thing once for each time that it was started."""
    found = [record["details"]["error"] for record in records(host.audit, "launch") if "error" in record["details"]]
    assert all(record["server"] == "evil" for record in records(host.audit, "launch") if "error" in record["details"])
    return "\n".join(found)


def cautious(question: Question) -> Reply:
    """Yes to servers and calls, no to definitions."""
    return not isinstance(question, DefinitionQuestion)


class TestDefinitions:
    @pytest.mark.parametrize("role", ["rug-pull", "annotations"])
    async def test_a_change_between_list_and_call(self, tmp_path: Path, role: str) -> None:
        person = Somebody(cautious)
        async with beside(tmp_path, role, person) as host:
            await host.ready()
            assert "evil__read" in [tool.name for tool in await host.tools()]
            with pytest.raises(Refused, match="not what it was when it was approved"):
                await host.call("evil__read")
            assert not called(host)
            await until(lambda: isinstance(person.asked[-1], DefinitionQuestion))
            asked = person.asked[-1]
            assert isinstance(asked, DefinitionQuestion)
            assert ("id_rsa" if role == "rug-pull" else "destructiveHint") in asked.difference
            assert "evil__read" not in [tool.name for tool in await host.tools()]
            (held,) = host.withheld()
            assert (held.server, held.kind, held.name) == ("evil", "tool", "read")
            assert host.servers["evil"].quarantined == 1
            with pytest.raises(Refused):
                await host.call("evil__read")
            await host.approve("evil", "tool", "read")
            assert (await host.call("evil__read")).text == "done"
        refused = records(host.audit, "refusal")
        assert {(record["server"], record["name"]) for record in refused} == {("evil", "read")}
        assert all(record["definition"] for record in refused)
        held_back = [record for record in records(host.audit, "definition") if record["by"] == "nobody"]
        assert [record["server"] for record in held_back] == ["evil"]

    async def test_a_prompt_that_changes(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "rug-pull", Somebody(cautious)) as host:
            await host.ready()
            assert "/mcp.evil.sum-up" in [prompt.command for prompt in await host.prompts()]
            for _ in range(2):
                with pytest.raises(Refused, match=r"not what it was|held back"):
                    await host.prompt("/mcp.evil.sum-up")
            assert not called(host)
            assert "/mcp.evil.sum-up" not in [prompt.command for prompt in await host.prompts()]
        assert {record["details"]["kind"] for record in records(host.audit, "refusal")} >= {"prompt"}

    async def test_trust_spares_no_look_where_changes_are_not_announced(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "rug-pull", Somebody(cautious)) as host:
            await host.ready()
            await host.trust("evil", True)
            with pytest.raises(Refused, match="not what it was"):
                await host.prompt("/mcp.evil.sum-up")
            assert not called(host)

    async def test_a_change_is_caught_after_a_restart_too(self, tmp_path: Path) -> None:
        """What was approved is in the lockfile, so that a change while nobody looks is a change."""
        lock = tmp_path / "mcp.lock"
        async with beside(tmp_path, "innocent", lock=lock) as host:
            assert (await host.call("evil__read")).text == "done"
        assert "id_rsa" not in lock.read_text()
        person = Somebody(cautious)
        async with beside(tmp_path, "poisoned", person, lock=lock) as host:
            await host.ready()
            assert [tool.name for tool in await host.tools() if tool.server == "evil"] == ["evil__read"]
            assert [held.name for held in host.withheld()] == ["sum"]

    async def test_hundreds_of_changes_do_not_drown_the_person(self, tmp_path: Path) -> None:
        open_now = most = 0

        async def approve(question: Question) -> Reply:
            nonlocal open_now, most
            if not isinstance(question, DefinitionQuestion):
                return True
            open_now += 1
            most = max(most, open_now)
            try:
                await asyncio.sleep(0.001)
            finally:
                open_now -= 1
            return False

        async with beside(tmp_path, "many", on_approve=approve) as host:
            await host.ready()
            assert (await host.call("evil__tool0")).text == "done"
            assert len(host.withheld()) == 499
            assert [tool.name for tool in await host.tools() if tool.server == "evil"] == ["evil__tool0"]
            answered = [record for record in records(host.audit, "answer") if record["details"]["kind"] == "definition"]
            assert len(answered) <= 50
        assert most == 1
        assert "449 more definitions" in misconduct(host)

    async def test_a_person_who_agrees_to_a_change_has_the_tool_back(self, tmp_path: Path) -> None:
        person = Somebody(True)
        async with beside(tmp_path, "rug-pull", person) as host:
            await host.ready()
            with pytest.raises(Refused):
                await host.call("evil__read")
            await until(lambda: not host.withheld())
            assert (await host.call("evil__read")).text == "done"
        agreed = [record for record in records(host.audit, "definition") if record["by"] == "person"]
        assert "id_rsa" in agreed[0]["details"]["difference"]

    async def test_names_of_others(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "shadowing", Somebody(cautious)) as host:
            await host.ready()
            for _ in range(3):
                assert (await host.call("good__add", a=1, b=2)).data == 3
            assert not called(host)
            names = {tool.name: tool.server for tool in await host.tools()}
            assert names["good__add"] == "good"
            assert {server for name, server in names.items() if name.startswith("evil__")} == {"evil"}
            assert host.servers["evil"].server == "good 1", "what it calls itself is shown, and used for nothing"

    async def test_a_description_that_speaks_to_the_model(self, tmp_path: Path) -> None:
        person = Somebody(cautious)
        async with beside(tmp_path, "poisoned", person) as host:
            await host.ready()
            offered = [tool.name for tool in await host.tools() if tool.server == "evil"]
            assert offered == ["evil__read"]
            with pytest.raises(Refused, match="has not been approved"):
                await host.call("evil__sum", text="x")
            assert not called(host)
            await until(lambda: any(isinstance(each, DefinitionQuestion) for each in person.asked))
            (held,) = host.withheld()
            assert held.concerns
        (found,) = [record for record in records(host.audit, "definition") if record["by"] == "nobody"]
        assert found["details"]["concerns"]

    async def test_two_tools_of_one_name_are_listed_once(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "twice") as host:
            await host.ready()
            (tool,) = [tool.tool for tool in await host.tools() if tool.server == "evil"]
            assert tool.description == "Read a note."
            assert (await host.call("evil__read")).text == "done"
        assert "'read' more than once" in misconduct(host)

    async def test_nobody_takes_a_tool_away_by_imitating_it(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "imitating", Somebody(cautious)) as host:
            await host.ready()
            await host.call("evil__read")
            names = [tool.name for tool in await host.tools()]
            assert {"good__add", "good__echo"} <= set(names)
            assert sorted(held.name for held in host.withheld()) == ["ech0", "\u0430dd"]

    async def test_names_that_no_name_should_be(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "named", Somebody(cautious)) as host:
            await host.ready()
            names = [tool.name for tool in await host.tools()]
            assert len(names) == len(set(names))
            assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in names)
            told = {held.name: held.concerns for held in host.withheld()}
            assert "control characters" in told["a\x1b[2Jb"][0]
            assert "10000 characters long" in told["x" * 10_000][0]
            assert "mixes alphabets" in told["re\u0430d"][0]
            assert (await host.call("good__add", a=1, b=2)).data == 3

    async def test_what_never_stays_the_same_fills_neither_disk_nor_screen(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "restless", Somebody(cautious)) as host:
            await host.ready()
            for _ in range(20):
                assert (await host.call("evil__read")).text == "done"
            assert len(host.withheld()) == 40
            offered = [tool.name for tool in await host.tools() if tool.server == "evil"]
            assert offered == ["evil__read"]
        held_back = [record for record in records(host.audit, "definition") if record["by"] == "nobody"]
        assert 40 <= len(held_back) <= 220
        assert "change faster than anybody can follow" in misconduct(host)

    async def test_what_changes_while_the_person_reads_is_not_approved(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "rug-pull", Somebody(cautious)) as host:
            await host.ready()
            with pytest.raises(Refused):
                await host.call("evil__read")
            (held,) = host.withheld()
            with pytest.raises(Refused, match="has changed since it was shown"):
                await host.approve("evil", "tool", "read", "0" * 64)
            assert host.withheld() == [held]
            await host.approve("evil", "tool", "read", held.digest)
            assert host.withheld() == []


class TestLists:
    @pytest.mark.parametrize(
        ("role", "told"), [("oversized", "max_items=2000"), ("endless", "pages"), ("surrogate", "malformed")]
    )
    async def test_too_much(self, tmp_path: Path, role: str, told: str) -> None:
        async with beside(tmp_path, role) as host:
            await host.ready()
            status = host.servers["evil"]
            assert status.state == "ready"
            assert told in status.problems[0]
            assert [tool for tool in await host.tools() if tool.server == "evil"] == []
            assert any(told in line.text for line in host.logs("evil"))
        assert told in misconduct(host)

    async def test_a_definition_that_is_too_long_is_left_out(self, tmp_path: Path) -> None:
        async with beside(tmp_path, "verbose") as host:
            await host.ready()
            assert [tool.name for tool in await host.tools() if tool.server == "evil"] == ["evil__read"]
            assert any("left out" in line.text for line in host.logs("evil"))
            await host.call("evil__read")
        assert "left out" in misconduct(host)

    async def test_a_list_that_never_comes_does_not_hold_up_the_host(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, list_seconds=0.3)
        async with beside(tmp_path, "mute", limits=limits) as host:
            await host.ready()
            assert "within 0.3 s" in host.servers["evil"].problems[0]
        assert "within 0.3 s" in misconduct(host)

    async def test_a_storm_of_changes_is_looked_at_now_and_then(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, refresh_seconds=0.5)
        async with beside(tmp_path, "storm", limits=limits) as host:
            await host.ready()
            began = time.monotonic()
            assert (await host.call("evil__read")).text == "done"
            lists = [line for line in host.traffic("evil") if b'"tools/list"' in line.message]
            assert len(lists) <= 3 + (time.monotonic() - began) / 0.5


class TestConduct:
    async def test_a_line_of_a_hundred_megabytes(self, tmp_path: Path) -> None:
        import resource

        limits = msgspec.structs.replace(QUICK, max_message_bytes=16_000_000)
        async with beside(tmp_path, "long-line", limits=limits) as host:
            await host.ready()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            result = await host.call("evil__read", check=False)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
            assert result.text

    async def test_a_server_that_does_not_read_its_input_holds_up_no_other(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, call_seconds=0.5, ping_seconds=0.3, idle_seconds=0.3)
        async with beside(tmp_path, "deaf", limits=limits) as host:
            await host.ready()
            calls = [host.call("evil__read", text="x" * 300_000, check=False) for _ in range(4)]
            others = [host.call("good__add", a=1, b=2) for _ in range(4)]
            assert [result.data for result in await asyncio.gather(*others)] == [3] * 4
            assert all(result.is_error for result in await asyncio.gather(*calls))
            await until(lambda: host.servers["evil"].restarts > 0)
        assert "does not answer any more" in misconduct(host)

    async def test_a_flood(self, tmp_path: Path) -> None:
        person = Somebody()
        async with beside(tmp_path, "flood", person) as host:
            await host.ready()
            await until(lambda: len(host.logs("evil")) > 50)
            for _ in range(20):
                began = time.monotonic()
                assert (await host.call("good__add", a=1, b=2)).data == 3
                assert time.monotonic() - began < 1
            kept = sum(len(line.text) for line in host.logs("evil"))
            assert kept < QUICK.log_bytes
            assert sum(len(line.message) for line in host.traffic("evil")) < QUICK.traffic_bytes + QUICK.traffic_line
            assert len(person.of("log", "evil")) < 500
            assert host.logs("good") == []
        assert "more than anybody can read" in misconduct(host)

    async def test_a_server_that_never_answers_fails_and_holds_up_no_other(self, tmp_path: Path) -> None:
        limits = msgspec.structs.replace(QUICK, start_seconds=0.5, attempts=2)
        silent = HOSTILE.parent / "programs" / "silent.py"
        async with hosting(tmp_path, entry("evil", silent), entry("good"), person=Somebody(), limits=limits) as host:
            starting = asyncio.create_task(host.ready())
            assert (await host.call("good__add", a=1, b=2)).data == 3
            await until(lambda: host.servers["evil"].state == "failed")
            assert "did not answer within 0.5 s" in str(host.servers["evil"].error)
            await starting
        assert "did not answer" in misconduct(host)

    @pytest.mark.parametrize(("role", "code"), [("crash", 7), ("crash-later", 8)])
    async def test_a_crash_loop_is_given_up(self, tmp_path: Path, role: str, code: int) -> None:
        async with beside(tmp_path, role) as host:
            await host.ready()
            await until(lambda: host.servers["evil"].state == "failed")
            status = host.servers["evil"]
            assert status.restarts == QUICK.attempts - 1
            assert f"exited with code {code}" in str(status.error)
            assert "given up after 3 failures" in str(status.error)
            assert f"exited with code {code}" in misconduct(host)
            await host.restart("evil")
            await until(lambda: host.servers["evil"].state == "failed")
        launches = [record for record in records(host.audit, "launch") if record["server"] == "evil"]
        assert len([record for record in launches if "spec" in record["details"]]) == 6


class TestQuestions:
    async def test_a_form_that_asks_for_a_password(self, tmp_path: Path) -> None:
        asked: list[tuple[str, Elicitation]] = []

        async def elicit(server: str, question: Elicitation) -> str:
            asked.append((server, question))
            return "decline"

        async with beside(tmp_path, "password", on_elicit=elicit) as host:
            result = await host.call("evil__read")
            assert '"decline"' in result.text
            ((server, question),) = asked
            assert server == "evil"
            assert isinstance(question, HostElicitation)
            assert "'password' asks for a secret" in question.concerns[0]
        (put,) = [record for record in records(host.audit, "question") if record["details"]["kind"] == "elicitation"]
        assert "secret" in put["details"]["concerns"][0]
        (done,) = records(host.audit, "elicitation")
        assert (done["by"], done["details"]["answer"]) == ("person", "decline")

    async def test_what_a_person_fills_in_is_not_recorded(self, tmp_path: Path) -> None:
        async def elicit(server: str, question: Elicitation) -> dict[str, str]:
            return {"password": "hunter2"}

        async with beside(tmp_path, "password", on_elicit=elicit) as host:
            assert "hunter2" in (await host.call("evil__read")).text
        assert "hunter2" not in (tmp_path / "user" / "audit.jsonl").read_text()
        assert records(host.audit, "elicitation")[0]["details"]["fields"] == ["password"]

    async def test_sampling_without_approval(self, tmp_path: Path) -> None:
        def answer(question: Question) -> Reply:
            return not isinstance(question, SamplingQuestion)

        model, person = ScriptedModel(["hello"]), Somebody(answer)
        async with beside(tmp_path, "sampling", person, models=[model]) as host:
            result = await host.call("evil__read")
            assert "rejected" in result.text
            assert "hello" not in result.text
            (asked,) = [each for each in person.asked if isinstance(each, SamplingQuestion)]
            assert (asked.server, asked.model, asked.wants_context) == ("evil", "scripted", True)
        refused = [record for record in records(host.audit, "refusal") if record["details"]["kind"] == "sampling"]
        assert [record["by"] for record in refused] == ["person"]
        assert records(host.audit, "sampling") == []

    async def test_sampling_without_anybody_to_ask(self, tmp_path: Path) -> None:
        policy = Policy([Rule("allow", kind="launch"), Rule("allow", tool="*")])
        options: dict[str, Any] = {"on_approve": None, "policy": policy, "models": [ScriptedModel(["hello"])]}
        async with beside(tmp_path, "sampling", **options) as host:
            assert "rejected" in (await host.call("evil__read")).text
        (refused,) = records(host.audit, "refusal")
        assert (refused["by"], refused["server"]) == ("nobody", "evil")

    @pytest.mark.parametrize("granted", [True, False])
    async def test_the_conversation_is_shown_only_with_consent(self, tmp_path: Path, granted: bool) -> None:
        from dovetail.types.content import Text

        seen: list[str] = []

        def said(params: Any) -> str:
            seen.append(str(params.messages))
            return "hello"

        def answer(question: Question) -> Reply:
            if isinstance(question, SamplingAnswerQuestion):
                return Yes(answer=msgspec.structs.replace(question.answer, content=Text("edited")))
            return Yes(context=granted)

        def conversation(server: str, scope: str) -> list[SamplingMessage]:
            return [SamplingMessage("user", Text(f"private {server} {scope}"))]

        person = Somebody(answer)
        async with beside(tmp_path, "sampling", person, models=[ScriptedModel([said, said])]) as host:
            host.on_context = conversation
            result = await host.call("evil__read")
            assert '"edited"' in result.text
            assert ("private evil allServers" in seen[0]) is granted
        (context,) = [one for one in records(host.audit, "sampling") if one["details"]["kind"] == "context"]
        assert context["details"]["outcome"] == ("granted" if granted else "not granted")

    async def test_a_server_that_asks_all_the_time_is_limited(self, tmp_path: Path) -> None:
        """Who is told no and asks again at once is refused before long, and does not fill the record."""
        asked = 0

        async def elicit(server: str, question: Elicitation) -> str:
            nonlocal asked
            asked += 1
            return "decline"

        async with beside(tmp_path, "nagging", on_elicit=elicit) as host:
            began = time.monotonic()
            answered = int((await host.call("evil__read")).text)
            assert answered == 500, "it is told each time, at once"
            assert asked <= 2 * QUICK.max_questions + 1 + (time.monotonic() - began)
        refused = [record for record in records(host.audit, "refusal") if record["server"] == "evil"]
        assert "faster than anybody can answer" in refused[0]["details"]["reason"]
        assert len(refused) <= asked

    async def test_a_page_whose_address_misleads(self, tmp_path: Path) -> None:
        asked: list[HostElicitation] = []

        async def elicit(server: str, question: Elicitation) -> str:
            assert isinstance(question, HostElicitation)
            asked.append(question)
            return "decline"

        async with beside(tmp_path, "page", on_elicit=elicit) as host:
            await host.call("evil__read")
            assert asked[0].url == "https://bank.example@evil.example/"
            assert "leads to 'evil.example'" in asked[0].concerns[0]
        async with beside(tmp_path, "backslash", on_elicit=elicit) as host:
            await host.call("evil__read", check=False)
        assert len(asked) == 1, "a browser would go to another host than the one that is shown"

    async def test_a_flood_of_questions(self, tmp_path: Path) -> None:
        """Of two hundred questions at once a few reach the person."""
        open_now = most = 0

        async def elicit(server: str, question: Elicitation) -> dict[str, str]:
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            await asyncio.sleep(0.05)
            open_now -= 1
            return {"a": "b"}

        async with beside(tmp_path, "questions", on_elicit=elicit) as host:
            assert int((await host.call("evil__read")).text) > 0
        assert 0 < most <= QUICK.max_questions
