"""A host over real servers, each a process of its own."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from dovetail.host.error_results import RefusedResult
from dovetail.host.events import TrafficLine
from dovetail.host.host import Host
from dovetail.host.running_work import Stopped
from dovetail.policy.approval_questions import CallQuestion, LaunchQuestion, No, Question, Reply, Yes
from dovetail.policy.approvals import Approvals
from dovetail.policy.conditions import Equals
from dovetail.policy.definitions import define
from dovetail.policy.lockfile import LockFile
from dovetail.policy.rules import Policy, Rule
from dovetail.protocol.errors import ConnectionLost, LocalError, Refused, ToolFailed
from dovetail.types.resources import ResourceTemplate
from tests.host.hosting import QUICK, Somebody, entry, hosting, records
from tests.support.waiting import until

ALLOW = Policy([Rule("allow", kind="*")])


class TestStarting:
    async def test_ten_servers_that_take_two_seconds_start_side_by_side(self, tmp_path: Path) -> None:
        entries = [entry(f"slow{number}", "plain.py", "2") for number in range(10)]
        async with hosting(tmp_path, *entries, policy=ALLOW) as host:
            began = time.monotonic()
            await host.ready()
            took = time.monotonic() - began
            assert [status.state for status in host.servers.values()] == ["ready"] * 10
            assert took < 15, "one after the other they take twenty seconds"
            assert len({tool.name for tool in await host.tools()}) == 10 * 7

    async def test_a_server_starts_only_when_it_is_needed(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), entry("b"), person=person) as host:
            assert {status.state for status in host.servers.values()} == {"idle"}
            await host.ready("a")
            assert [host.servers[key].state for key in "ab"] == ["ready", "idle"]
            assert [question.server for question in person.asked] == ["a"]

    async def test_a_broken_server_hides_no_other(self, tmp_path: Path) -> None:
        person = Somebody()
        limits = msgspec.structs.replace(QUICK, wait_seconds=2.0)
        broken = (entry("silent", "silent.py"), entry("missing", tmp_path / "missing.py"))
        async with hosting(tmp_path, *broken, entry("good"), person=person, limits=limits) as host:
            began = time.monotonic()
            names = {tool.server for tool in await host.tools()}
            assert names == {"good"}
            assert time.monotonic() - began < QUICK.start_seconds, "it waited for the broken server to start"
            again = time.monotonic()
            assert await host.tools()
            assert time.monotonic() - again < limits.wait_seconds, "it was waited for a second time"
            assert (await host.call("good__add", a=1, b=2)).data == 3
            await until(lambda: host.servers["missing"].state == "failed")
            assert "3 failures in a row" in str(host.servers["missing"].error)
            assert any("missing.py" in line.text for line in host.logs("missing"))

    async def test_the_launch_is_shown_whole_and_once(self, tmp_path: Path) -> None:
        person = Somebody(lambda question: Yes(remember="always"))
        long = "x" * 5000
        for _ in range(2):
            async with hosting(tmp_path, entry("a", "plain.py", "0", long), person=person) as host:
                await host.ready()
        (asked,) = person.asked
        assert isinstance(asked, LaunchQuestion)
        assert asked.spec.command[-1] == long
        assert asked.before is None
        async with hosting(tmp_path, entry("a", "plain.py", "0", "changed"), person=person) as host:
            await host.ready()
        changed = person.asked[-1]
        assert isinstance(changed, LaunchQuestion)
        assert changed.spec.command[-1] == "changed"
        assert changed.before is not None
        assert changed.before.command[-1] == long

    async def test_a_launch_that_is_refused_stays_so(self, tmp_path: Path) -> None:
        person = Somebody(lambda question: No(reason="not this one"))
        async with hosting(tmp_path, entry("a"), person=person) as host:
            await host.ready()
            assert host.servers["a"].state == "failed"
            assert "not this one" in str(host.servers["a"].error)
            assert await host.tools() == []
            assert len(person.asked) == 1
        assert [record["by"] for record in records(host.audit, "refusal")] == ["person"]

    async def test_nobody_to_ask_means_no(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a")) as host:
            await host.ready()
            assert "on_approve" in str(host.servers["a"].error)
        assert [record["by"] for record in records(host.audit, "refusal")] == ["nobody"]

    async def test_a_lost_server_comes_back_and_no_call_is_made_twice(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), entry("b"), policy=ALLOW) as host:
            await host.ready()
            with pytest.raises(ConnectionLost):
                await host.call("a__leave")
            await until(lambda: host.servers["a"].restarts == 1 and host.servers["a"].state == "ready")
            assert host.servers["b"].restarts == 0
            assert (await host.call("a__add", a=1, b=2)).data == 3
            sent = [
                line.message for line in host.traffic("a") if b'"leave"' in line.message and line.direction == "sent"
            ]
            assert len(sent) == 1

    async def test_restarting_and_switching_off(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            await host.ready()
            await host.restart("a")
            await host.ready()
            assert host.servers["a"].state == "ready"
            await host.set_enabled("a", False)
            assert host.servers["a"].state == "disabled"
            assert await host.tools() == []
            with pytest.raises(ConnectionLost, match="switched off"):
                await host.read("a", "note://one")
            with pytest.raises(LocalError, match="switched off"):
                await host.restart("a")
            await host.set_enabled("a", True)
            await host.ready()
            assert await host.tools()

    async def test_a_host_may_be_closed_in_another_task(self, tmp_path: Path) -> None:
        host = Host([entry("a")], policy=ALLOW, folder=tmp_path)
        await asyncio.create_task(host.open())
        with pytest.raises(LocalError, match="open already"):
            await host.open()
        await asyncio.create_task(host.ready())
        await asyncio.create_task(host.close())
        with pytest.raises(LocalError, match="not open"):
            await host.tools()

    async def test_closing_while_servers_start_leaves_nothing(self, tmp_path: Path) -> None:
        entries = [entry("silent", "silent.py"), entry("slow", "plain.py", "5")]
        async with hosting(tmp_path, *entries, policy=ALLOW) as host:
            starting = asyncio.create_task(host.ready())
            await until(lambda: all(status.state == "starting" for status in host.servers.values()))
            starting.cancel()


class TestUsing:
    async def test_a_host_lists_everything_that_servers_offer(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), entry("b"), policy=ALLOW) as host:
            assert [(each.server, each.resource.uri) for each in await host.resources()] == [
                ("a", "note://one"),
                ("b", "note://one"),
            ]
            assert [each.template.uri_template for each in await host.templates()] == ["note://{name}/of"] * 2
            assert [each.command for each in await host.prompts()] == ["/mcp.a.review", "/mcp.b.review"]
            assert host.instructions() == {"a": "Ask for a city.", "b": "Ask for a city."}
            prompted = await host.prompt("/mcp.a.review", {"code": "1"})
            assert prompted == await host.prompt(("b", "review"), {"code": "1"})
            assert (await host.complete("a", "review", "code", "x")).values == ["x1", "x2"]
            contents = (await host.read("a", "note://one")).contents
            assert "noted" in str(contents)
            for missing in ("/mcp.a.nothing", ("a", "nothing")):
                with pytest.raises(LocalError, match="There is no prompt"):
                    await host.prompt(missing)

    async def test_a_call_may_be_the_first_that_is_wanted(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            assert (await host.call("a__add", {"a": 1}, b=2)).data == 3
            with pytest.raises(ToolFailed):
                await host.call("a__add", a="no number", b=2)
            assert (await host.call("a__add", a="no number", b=2, check=False)).is_error
            with pytest.raises(LocalError, match="There is no tool 'a__nothing'"):
                await host.call("a__nothing")
            assert (await host.call("a__nothing", check=False)).is_error
            with pytest.raises(LocalError, match="There is no server 'c'"):
                await host.read("c", "note://one")

    async def test_list_changes_arrive_by_themselves(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), person=person, policy=ALLOW) as host:
            await host.tools()
            await host.trust("a", True)
            before = len(person.of("lists"))
            await host.call("a__grow")
            await until(lambda: len(person.of("lists")) > before)
            await until(lambda: host.servers["a"].quarantined == 0)
            assert "a__grown" in [tool.name for tool in await host.tools()]

    async def test_subscriptions_outlive_a_restart(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), person=person, policy=ALLOW) as host:
            await host.ready()
            await host.subscribe("a", "note://one")
            await self._touched(host, person, 1)
            with pytest.raises(ConnectionLost):
                await host.call("a__leave")
            await until(lambda: host.servers["a"].restarts == 1 and host.servers["a"].state == "ready")
            await self._touched(host, person, len(person.of("resource")) + 1)
            await host.unsubscribe("a", "note://one")

    async def _touched(self, host: Host, person: Somebody, wanted: int) -> None:
        while len(person.of("resource")) < wanted:
            await host.call("a__touch")
        assert person.of("resource")[-1].detail.uri == "note://one"

    async def test_the_environment_is_a_short_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_API_TOKEN", "hush")
        given = entry("a", "plain.py", env={"GIVEN": "yes"})
        async with hosting(tmp_path, given, policy=ALLOW) as host:
            assert (await host.call("a__environment", name="MY_API_TOKEN")).data == ""
            assert (await host.call("a__environment", name="GIVEN")).data == "yes"
            assert (await host.call("a__environment", name="PATH")).data

    async def test_switches_of_tools(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            await host.ready()
            await host.set_tool("a", "echo", False)
            assert "a__echo" not in [tool.name for tool in await host.tools()]
            assert [tool.name for tool in host.switched_off()] == ["a__echo"]
            with pytest.raises(Refused, match="switched off"):
                await host.call("a__echo", text="x")
            await host.set_tool("a", "echo", True)
            assert (await host.call("a__echo", text="x")).data == "x"


class TestConsent:
    async def test_the_question_shows_all_and_a_refusal_reaches_the_model(self, tmp_path: Path) -> None:
        person = Somebody(lambda question: isinstance(question, LaunchQuestion) or No(reason="rather not"))
        async with hosting(tmp_path, entry("a"), person=person) as host:
            with pytest.raises(Refused, match="The user refused to call the tool 'echo' of 'a': rather not"):
                await host.call("a__echo", text="x")
            result = await host.call("a__echo", text="x", check=False)
            assert isinstance(result, RefusedResult)
            assert result.is_error
            assert "The user refused" in result.text
            asked = person.asked[-1]
            assert isinstance(asked, CallQuestion)
            assert (asked.server, asked.tool, asked.description) == ("a", "echo", "Say it again.")
            assert asked.arguments == {"text": "x"}
            assert asked.input_schema["properties"] == {"text": {"type": "string"}}
            assert "default" in asked.rule
            assert not [line for line in host.traffic("a") if b'"tools/call"' in line.message]
        refusals = records(host.audit, "refusal")
        assert [(record["by"], record["name"]) for record in refusals] == [("person", "echo")] * 2

    async def test_edited_arguments_are_checked_and_go_through_the_policy_again(self, tmp_path: Path) -> None:
        edits = iter([{"text": 5}, {"text": "edited"}, {"text": "forbidden"}])

        def answer(question: Question) -> Reply:
            return Yes(arguments=next(edits)) if isinstance(question, CallQuestion) else True

        person = Somebody(answer)
        policy = Policy([Rule("deny", tool="echo", arguments={"text": Equals("forbidden")})])
        async with hosting(tmp_path, entry("a"), person=person, policy=policy) as host:
            assert (await host.call("a__echo", text="x")).data == "edited"
            again = person.asked[-1]
            assert isinstance(again, CallQuestion)
            assert "do not fit" in again.rule
            with pytest.raises(Refused, match="as they were edited"):
                await host.call("a__echo", text="x")
        called = records(host.audit, "call")
        assert [record["details"]["arguments"] for record in called] == [{"text": "edited"}]
        assert called[0]["by"] == "person"
        assert called[0]["definition"]

    async def test_an_edit_is_an_edit_also_where_python_sees_no_difference(self, tmp_path: Path) -> None:
        person = Somebody(
            lambda question: Yes(arguments={"a": 1.0, "b": 1}) if isinstance(question, CallQuestion) else True
        )
        async with hosting(tmp_path, entry("a"), person=person) as host:
            await host.call("a__add", {"a": 1, "b": True}, check=False)
        (called,) = records(host.audit, "call")
        assert repr(called["details"]["arguments"]) == "{'a': 1.0, 'b': 1}"

    async def test_trust_that_is_taken_back_elsewhere_is_gone(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), person=person) as host:
            await host.ready()
            await host.trust("a", True)
            await host.call("a__add", a=1, b=2)
            asked = len(person.asked)
            (launch,) = [question for question in person.asked if isinstance(question, LaunchQuestion)]
            Approvals(tmp_path / "user").trust("a", launch.spec, False)
            await host.call("a__add", a=1, b=2)
            assert len(person.asked) == asked + 1
            assert not host.servers["a"].trusted

    async def test_a_secret_that_a_server_repeats_is_not_recorded(self, tmp_path: Path) -> None:
        given = entry("a", tmp_path / "talking.py", env={"SOME_TOKEN": "correct-horse"})
        (tmp_path / "talking.py").write_text("import os, sys; sys.exit('I have ' + os.environ['SOME_TOKEN'])")
        async with hosting(tmp_path, given, policy=ALLOW) as host:
            await host.ready()
            await until(lambda: host.servers["a"].state == "failed")
            assert any("I have [redacted]" in line.text for line in host.logs("a"))
            assert "correct-horse" not in repr(host.logs("a")) + repr(host.servers)
        assert "correct-horse" not in (tmp_path / "user" / "audit.jsonl").read_text()

    async def test_what_is_held_back_is_not_read_or_watched(self, tmp_path: Path) -> None:
        lock = tmp_path / "mcp.lock"
        async with hosting(tmp_path, entry("a"), policy=ALLOW, lock=lock) as host:
            await host.read("a", "note://me/of")
        template = ResourceTemplate("note://{name}/of", "other")
        LockFile(lock, tmp_path / "user").change(lambda known: known.with_definitions("a", define(template)))
        policy = Policy([Rule("ask", kind="definition"), Rule("deny", kind="resource", name="*/two/of"), *ALLOW.rules])
        async with hosting(tmp_path, entry("a"), policy=policy, lock=lock) as host:
            assert await host.templates() == []
            for attempt in (host.read, host.subscribe):
                with pytest.raises(Refused, match="held back"):
                    await attempt("a", "note://me/of")
            await host.read("a", "note://one")
            await host.approve("a", "template", "note://{name}/of")
            await host.read("a", "note://me/of")
            with pytest.raises(Refused, match="policy"):
                await host.subscribe("a", "note://two/of")
        done = [record for record in records(host.audit, "result") if record["details"]["kind"] == "resource"]
        assert len(done) == 3

    async def test_an_answer_for_the_session_is_not_asked_again(self, tmp_path: Path) -> None:
        person = Somebody(lambda question: Yes(remember="session"))
        async with hosting(tmp_path, entry("a"), person=person) as host:
            for _ in range(3):
                await host.call("a__echo", text="x")
            assert len([each for each in person.asked if isinstance(each, CallQuestion)]) == 1

    async def test_annotations_of_a_trusted_server_are_believed(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), person=person) as host:
            await host.call("a__add", a=1, b=2)
            assert len(person.asked) == 2
            await host.trust("a", True)
            await host.call("a__add", a=1, b=2)
            assert len(person.asked) == 2
            await host.call("a__echo", text="x")
            assert len(person.asked) == 3

    async def test_prompts_and_resources_go_by_the_rules(self, tmp_path: Path) -> None:
        person = Somebody()
        rules = [Rule("deny", kind="resource", name="note://two/*"), Rule("ask", kind="prompt")]
        async with hosting(tmp_path, entry("a"), person=person, policy=Policy(rules)) as host:
            await host.ready()
            assert (await host.read("a", "note://one")).contents
            with pytest.raises(Refused, match="deny resource"):
                await host.read("a", "note://two/of")
            await host.prompt("/mcp.a.review", {"code": "x"})
            asked = person.asked[-1]
            assert isinstance(asked, CallQuestion)
            assert (asked.tool, asked.arguments) == ("prompt review", {"code": "x"})
        kinds = [(record["details"]["kind"], record["by"]) for record in records(host.audit, "call")]
        assert kinds == [("resource", "policy"), ("prompt", "person")]

    async def test_keys_that_look_alike_are_told_of(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("github"), entry("gith\u00fcb"), person=person):
            assert "github" in str(person.of("config")[0].detail)

    async def test_a_plain_function_is_asked_in_a_thread(self, tmp_path: Path) -> None:
        def approve(question: Question) -> bool:
            time.sleep(0.01)
            return True

        async with hosting(tmp_path, entry("a"), on_approve=approve) as host:
            assert (await host.call("a__add", a=1, b=2)).data == 3


class TestConfirmedCalls:
    async def test_a_user_who_has_confirmed_a_call_is_not_asked_again(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), person=person) as host:
            await host.ready()
            assert (await host.call("a__add", {"a": 1, "b": 2}, confirmed=True)).data == 3
        assert not [question for question in person.asked if isinstance(question, CallQuestion)]
        (answer,) = [each for each in records(host.audit, "answer") if each.get("name") == "add"]
        assert answer["by"] == "person" and answer["details"]["answer"] == "yes"

    @pytest.mark.parametrize("rules", [[Rule("deny", server="a", tool="add")], [Rule("deny", tool="*")]])
    async def test_a_rule_that_denies_a_confirmed_call_wins(self, tmp_path: Path, rules: list[Rule]) -> None:
        policy = Policy([*rules, Rule("allow", kind="*")])
        async with hosting(tmp_path, entry("a"), policy=policy) as host:
            await host.ready()
            with pytest.raises(Refused, match="The policy does not allow"):
                await host.call("a__add", {"a": 1, "b": 2}, confirmed=True)
        assert records(host.audit, "call") == []

    async def test_running_calls_are_listed_and_one_is_cancelled(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), policy=ALLOW) as host:
            await host.ready()
            assert host.running() == []
            call = asyncio.ensure_future(host.call("a__wait", {"seconds": 60}, check=False))
            await until(lambda: bool(host.running()))
            (work,) = host.running()
            assert work.what == "the call of 'a__wait'" and abs(work.since - time.time()) < 60
            assert host.cancel(work.number)
            assert "stopped" in (await call).text
            assert not host.cancel(work.number)

    async def test_every_message_is_told_of(self, tmp_path: Path) -> None:
        lines: list[TrafficLine] = []
        async with hosting(tmp_path, entry("a"), policy=ALLOW, on_traffic=lines.append) as host:
            await host.ready()
            assert lines == list(host.traffic("a")) and {line.direction for line in lines} == {"sent", "received"}


class TestStopping:
    async def test_calls_are_cancelled_at_the_server(self, tmp_path: Path) -> None:
        person = Somebody()
        async with hosting(tmp_path, entry("a"), person=person, policy=ALLOW) as host:
            await host.ready()
            call = asyncio.create_task(host.call("a__wait", seconds=60, check=False))
            await until(lambda: person.of("progress"))
            await host.stop()
            result = await call
            assert isinstance(result, RefusedResult)
            assert "The user stopped the call of 'a__wait'" in result.text
            await until(lambda: any("was cancelled" in line.text for line in host.logs("a")))
            assert (await host.call("a__add", a=1, b=2)).data == 3

    async def test_many_at_once(self, tmp_path: Path) -> None:
        async with hosting(tmp_path, entry("a"), entry("b"), policy=ALLOW) as host:
            await host.ready()
            for _ in range(3):
                waits = [
                    asyncio.create_task(host.call(f"{key}__wait", seconds=60, check=False))
                    for key in "ab"
                    for _ in range(20)
                ]
                await asyncio.sleep(0)
                await host.stop()
                assert all(isinstance(result, RefusedResult) for result in await asyncio.gather(*waits))
                assert (await host.call("a__add", a=1, b=2)).data == 3

    async def test_servers_that_do_not_want_to_end(self, tmp_path: Path) -> None:
        entries = [entry(key, "stubborn.py") for key in "abc"]
        async with hosting(tmp_path, *entries, policy=ALLOW) as host:
            await host.ready()
            assert {status.state for status in host.servers.values()} == {"ready"}
            began = time.monotonic()
            await host.close()
            assert time.monotonic() - began < 8

    async def test_questions_are_withdrawn(self, tmp_path: Path) -> None:
        person, withdrawn = Somebody(), asyncio.Event()

        async def approve(question: Question) -> Reply:
            if isinstance(question, LaunchQuestion):
                return True
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                withdrawn.set()
                raise
            return True

        async with hosting(tmp_path, entry("a"), on_approve=approve, on_event=person.heard) as host:
            await host.ready()
            call = asyncio.create_task(host.call("a__echo", text="x"))
            await until(lambda: len(person.of("question")) == 2)
            await host.stop()
            with pytest.raises(Stopped):
                await call
            assert withdrawn.is_set()
            assert person.of("withdrawn")[0].detail.tool == "echo"
            # A caller that goes away takes its question with it.
            call = asyncio.create_task(host.call("a__echo", text="x"))
            await until(lambda: len(person.of("question")) == 3)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert len(person.of("withdrawn")) == 2

    async def test_a_question_about_a_server_that_goes_is_withdrawn(self, tmp_path: Path) -> None:
        person = Somebody()

        async def approve(question: Question) -> Reply:
            if isinstance(question, CallQuestion) and question.tool == "echo":
                await asyncio.sleep(60)
            return True

        async with hosting(tmp_path, entry("a"), on_approve=approve, on_event=person.heard) as host:
            await host.ready()
            call = asyncio.create_task(host.call("a__echo", text="x"))
            await until(lambda: len(person.of("question")) == 2)
            with pytest.raises(ConnectionLost):
                await host.call("a__leave")
            with pytest.raises(ConnectionLost, match="gone"):
                await call
            assert [event.detail.tool for event in person.of("withdrawn")] == ["echo"]

    async def test_a_launch_question_that_is_stopped_is_asked_again(self, tmp_path: Path) -> None:
        person = Somebody()
        first = asyncio.Event()

        async def approve(question: Question) -> Reply:
            if not first.is_set():
                first.set()
                await asyncio.sleep(60)
            return True

        async with hosting(tmp_path, entry("a"), on_approve=approve, on_event=person.heard) as host:
            waiting = asyncio.create_task(host.tools())
            await first.wait()
            await host.stop()
            assert await waiting == []
            assert host.servers["a"].state == "idle"
            assert await host.tools()
