"""What stands behind the slashes: prompts, tools, resources, servers, logs and traffic."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.chat.at_host import CLEAR, CTRL_S, DOWN, ENTER, ESC, UP, YOU, AtHost
from tests.cli.commands.test_logins import Desk
from tests.cli.invoke import FILM
from tests.client.rotating import Rotating
from tests.support.model_endpoint import endpoint, openai_answer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")

MOODY = str(Path(__file__).parent / "programs" / "moody.py")


def test_a_prompt_is_found_completed_looked_at_edited_and_sent(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.type("/mcp.")
        terminal.until("/mcp.desk.letter", "Write a letter.")
        terminal.type("desk.letter to=Ann tone=k")
        terminal.until("kind", "keen")
        terminal.type("een" + ENTER)
        seen = terminal.until("/mcp.desk.letter of desk", "[e] edit")
        assert "Write a keen letter to Ann." in seen
        terminal.type("e")
        terminal.answer("Ctrl-S or Esc Enter: save", CLEAR + "=== user ===\rWrite a long letter." + CTRL_S)
        terminal.until("Write a long letter.")
        terminal.until_at_cursor("[y] send")
        terminal.type("y")
        terminal.until("Dear all.")


def test_arguments_of_a_prompt_are_asked_for_with_the_servers_suggestions(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/mcp.desk.letter")
        terminal.answer("  to:", "the bank" + ENTER)
        terminal.until("tone (optional):")
        terminal.type("s")
        terminal.until("stern")
        terminal.type("tern" + ENTER)
        terminal.until("Write a stern letter to the bank.", "[n] cancel")
        terminal.type("n")
        terminal.until_prompt()
        assert "Dear all." not in terminal.transcript


def test_a_tool_is_switched_off_looked_at_and_run_by_hand(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/tools")
        terminal.until("> [x] add", "Space on/off")
        terminal.type(" ")
        terminal.until("> [ ] add")
        terminal.type("r")
        terminal.until("cannot be run: it is off")
        terminal.until_at_cursor("[b] back to the list")
        terminal.type("b")
        terminal.until("> [ ] add")
        terminal.type(" ")
        terminal.until("> [x] add")
        terminal.type(ENTER)
        terminal.until_seen("the model calls it desk__add", "input schema:")
        terminal.until_at_cursor("[b] back to the list")
        terminal.type("b")
        terminal.until("Space on/off")
        terminal.type("r")
        terminal.answer("a (integer):", "x" + ENTER)
        terminal.until("must be of type integer")
        terminal.until_at_cursor("  a (integer):")
        terminal.type("40" + ENTER)
        terminal.answer("b (integer, optional) [1]:", ENTER)
        terminal.until('"a": 40', "[e] edit")
        terminal.type("e")
        terminal.answer("Ctrl-S or Esc Enter: save", CLEAR + '{"a": 41}' + CTRL_S)
        terminal.until('"a": 41')
        terminal.until_at_cursor("[y] call")
        terminal.type("y")
        terminal.until("| 42")
        # Who has confirmed the form is not asked again.
        assert "May the tool" not in terminal.transcript


def test_a_list_is_narrowed(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/tools")
        terminal.until("> [x] add")
        terminal.type("/pix")
        terminal.type("\x7fc")
        terminal.until("> [x] picture", "/pic")
        terminal.until_gone("[x] book")
        terminal.type(ENTER)
        terminal.until("Space on/off")
        terminal.type(ENTER)
        terminal.until_at_cursor("[b] back to the list")
        terminal.type("b")
        terminal.until("Tools (1 of 1)  /pic", "> [x] picture")
        terminal.type("q")
        terminal.say("/tools")
        terminal.until("> [x] add")
        terminal.type("q")
        terminal.until_prompt()


def test_a_call_by_hand_is_looked_at_first_and_its_refusal_is_said_to_the_user(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/call add b=2")
        terminal.until("desk__add does not take this:", "required")
        assert "May the tool" not in terminal.transcript
        terminal.say("/call add a=2")
        terminal.answer("[n] no", "n")
        terminal.until("x You refused to call the tool 'add' of 'desk'")
        assert "ask the user" not in terminal.transcript
        terminal.until_prompt()
        terminal.type("/call ad")
        terminal.until("desk__add")


def test_a_changed_tool_is_held_back_until_its_difference_is_approved(tmp_path: Path) -> None:
    with AtHost(tmp_path, server=MOODY) as terminal:
        terminal.ready()
        terminal.leave()
    with AtHost(tmp_path, server=MOODY) as terminal:
        terminal.until("desk is ready")
        terminal.until("Accept it?", "wants more")
        terminal.answer("[n] no", "n")
        terminal.say("/tools")
        terminal.until("[!] greet", "withheld")
        terminal.type("r")
        terminal.until("cannot be run: it is withheld")
        terminal.until_at_cursor("[b] back to the list")
        terminal.type("b")
        terminal.until("Space on/off")
        terminal.type("a")
        terminal.until_seen("Greets, and wants more.")
        terminal.until_at_cursor("[y] accept")
        terminal.type("y")
        terminal.until("> [x] greet")


def test_resources_are_browsed_read_saved_and_attached(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/resources")
        seen = terminal.until("> ", "desk://note", "desk://drawer/{number}", "Enter read")
        assert "desk://stamp" in seen
        terminal.type(ENTER)
        terminal.until_seen("[1] desk://note of desk", "| Back at nine.")
        terminal.until_at_cursor("[b] back to the list")
        terminal.type("b")
        terminal.until("Enter read")
        terminal.type("s")
        terminal.answer("  file:", str(tmp_path / "saved") + ENTER)
        terminal.until("Wrote 14 bytes to")
        terminal.type("t")
        terminal.until("will be sent with your next message")
        terminal.type("q")
        terminal.say("what is this")
        terminal.until("I read the note.")
        assert "attached, about" in terminal.transcript
        assert (tmp_path / "saved").read_bytes() == b"Back at nine.\n"
        terminal.say(f"/save 1 {tmp_path / 'saved'}")
        terminal.until("already exists")


def test_a_template_is_filled_in_with_suggestions(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/resources")
        terminal.until("Enter read")
        terminal.type(DOWN + DOWN + ENTER)
        terminal.until("number:")
        terminal.type("1")
        terminal.until("10", "11")
        terminal.type("7" + ENTER)
        terminal.until("| drawer 17")


def test_a_call_by_hand_shows_that_it_runs_until_esc_stops_it(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/call sleep")
        terminal.answer("[y] call", "y")
        terminal.until("sleep · 1 s · Esc stops")
        terminal.type(ESC)
        terminal.until("(stopped)")
        terminal.until_prompt()
        assert "Esc stops" not in terminal.screen


def test_a_link_is_followed(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("a picture")
        terminal.answer("[y] once", "y")
        terminal.until("Look.", "[1] note: desk://note")
        terminal.say("/open 1")
        terminal.until("| Back at nine.")
        terminal.say("/open 7")
        terminal.until("there is no resource number 7; there is only number 1")
        terminal.say("/open one")
        terminal.until("name a resource by its number")


def test_a_resource_is_watched_while_one_types(tmp_path: Path) -> None:
    with AtHost(tmp_path, DESK_BUSY="1") as terminal:
        terminal.until_prompt()
        terminal.type("/watch desk desk://note" + ENTER)
        terminal.until("desk://note of desk is watched.")
        terminal.type("half a line")
        terminal.until("~ desk://note of desk has changed", f"{YOU} half a line")


def test_servers_are_seen_disabled_and_trusted(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/servers")
        terminal.until("> + desk  ready", "e enable/disable")
        terminal.type(ENTER)
        terminal.until_seen("desk: ready", "13 tools", "| Knock first.")
        terminal.until_at_cursor("[b] back to the list")
        terminal.type("b")
        terminal.until("e enable/disable")
        terminal.type("t")
        terminal.until("would be trusted")
        terminal.until_at_cursor("[y] trust desk")
        terminal.type("y")
        terminal.until("ready", "trusted", "e enable/disable")
        terminal.type("e")
        terminal.until("> - desk  disabled")
        terminal.type("e")
        terminal.until("> + desk  ready")
        terminal.type("r")
        terminal.until("e enable/disable")
        terminal.type("q")
        terminal.until_prompt()


def test_servers_are_live_after_a_refusal_and_a_restart(tmp_path: Path) -> None:
    with AtHost(tmp_path, launch=False) as terminal:
        terminal.answer("[n] no", "n")
        terminal.until("! desk is not running: You refused to start the server 'desk'")
        terminal.say("/mcp")
        terminal.until("> ! desk  failed, You refused to start the server")
        terminal.type("r")
        terminal.answer("[y] once", "y")
        # Nothing is typed: the list that is open shows the new state by itself.
        terminal.until("> + desk  ready", "13 tools")
        terminal.type("q")
        terminal.until_prompt()


def test_the_rules_the_audit_log_and_running_calls_are_shown(tmp_path: Path) -> None:
    with AtHost(tmp_path, "--deny", "desk__fail") as terminal:
        terminal.ready()
        terminal.say("/call fail")
        terminal.until_at_cursor("[y] call")
        terminal.type("y")
        terminal.until("x The policy does not allow me to call the tool 'fail'")
        terminal.say("/policy")
        terminal.until_seen("deny tool fail of desk (--deny)", "defaults:", "trusted servers: none")
        terminal.say("/audit desk 5")
        terminal.until_seen("refusal desk fail by policy", "dovetail audit verify")
        terminal.say("/tasks")
        terminal.until("Nothing is running.")
        terminal.say("/call sleep &")
        terminal.answer("[y] once", "y")
        terminal.until("runs in the background")
        terminal.say("/tasks")
        terminal.until("> … the call of 'desk__sleep'", "x cancel")
        terminal.type("x")
        terminal.until("is cancelled", "nothing here")
        terminal.type("q")
        terminal.until_prompt()
        assert terminal.leave() == 0


def test_tasks_go_on_in_the_background_and_are_answered_awaited_and_cancelled(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    words = ["--allow", "desk__*"]
    with AtHost(tmp_path, *words, server=FILM, FILM_GATE=str(gate)) as terminal:
        terminal.ready()
        terminal.say("/call render scene=harbour &")
        terminal.until("desk__render is task 1.", "1 task")
        terminal.say("/call paint &")
        terminal.until('? task 2 ("desk": paint) asks you something', "2 tasks, 1 asking")
        terminal.say("/tasks")
        terminal.until("> … desk: render  task 1, working", "rendering harbour", "? desk: paint   task 2, asks you")
        terminal.type(DOWN + ENTER)
        terminal.until_at_cursor("  style:")
        terminal.type("pop" + ENTER)
        terminal.answer("[y] yes", "y")
        terminal.until("| painted: pop")
        terminal.type("b")
        terminal.until("+ desk: paint   task 2, completed")
        terminal.type(UP + "w")
        terminal.until("Waiting; Esc or Ctrl-C ends the wait")
        gate.touch()
        terminal.until("| harbour is rendered")
        terminal.type("q")
        terminal.until_prompt()
        gate.unlink()
        terminal.say("/call render scene=night &")
        terminal.until("desk__render is task 3.")
        terminal.say("/tasks")
        terminal.until("rendering night")
        terminal.type("x")
        terminal.until("was cancelled; /tasks shows it")
        terminal.type("q")
        terminal.until_prompt()
        assert terminal.leave() == 0


def test_a_path_is_a_message_and_a_tool_that_is_off_says_so(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/etc/hosts has what?")
        terminal.until("I do not know.")
        terminal.type("what says @de")
        terminal.until("@desk:  ready")
        terminal.type("sk:")
        terminal.until("desk://stamp")
        terminal.type("\x15")
        terminal.say("what says @desk:desk://note?")
        terminal.until("desk://note of desk: attached, about")
        terminal.say("/tools")
        terminal.until("> [x] add")
        terminal.type(" ")
        terminal.until("> [ ] add")
        terminal.type("q")
        terminal.say("/call add a=1")
        terminal.until("the tool desk__add is switched off; /tools switches it on")
        terminal.say("/attach 9")
        terminal.until("there is no resource number 9; no resource has a number yet")


def test_messages_that_went_by_are_shown_narrowed_and_saved(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/traffic desk tools/list")
        terminal.until_seen("desk       -> tools/list ", " ok ", " ms ")
        number = re.search(r"^ *(\d+) .* tools/list .* ok ", terminal.screen, re.MULTILINE)
        assert number is not None
        terminal.say(f"/traffic {number[1]}")
        terminal.until_seen('|   "method": "tools/list"', "<- answer, ")
        terminal.say("/traffic 999")
        terminal.until("no exchange 999 is kept; there are 1 to")
        terminal.say("/traffic errors")
        terminal.until("No message that failed.")
        terminal.say(f"/traffic save {tmp_path / 'traffic'}")
        terminal.until("messages are in")
        saved = [json.loads(line) for line in (tmp_path / "traffic").read_text().splitlines()]
        assert {line["direction"] for line in saved} == {"sent", "received"}
        assert any(json.loads(line["message"]).get("method") == "tools/list" for line in saved)
        terminal.say("/traffic nobody-said-this")
        terminal.until("No message with 'nobody-said-this'.")
        terminal.say("/log desk")
        terminal.until_prompt()


def test_traffic_is_followed_while_one_works(tmp_path: Path) -> None:
    with AtHost(tmp_path, "--allow", "desk") as terminal:
        terminal.ready()
        terminal.say("/traffic follow tools/call")
        terminal.until("/traffic off ends it.")
        terminal.say("/call echo text=secret&token=abc")
        terminal.until("-> tools/call echo")
        terminal.say("/call fail")
        terminal.until_at_cursor("[y] call")
        terminal.type("y")
        terminal.until("-> tools/call fail", " failed ")
        terminal.say("/traffic off")
        terminal.until("no longer followed")
        terminal.say("/call add a=1")
        terminal.until("| 2")
        assert "tools/call add" not in terminal.transcript


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("/tool")
        terminal.until("did you mean /tools?")
        terminal.say("/help")
        terminal.until_seen("/traffic", "/quit")
        terminal.say("/model")
        terminal.until("* talk")
        terminal.type(ENTER)
        terminal.until("The model talk answers.")
        terminal.say("/accounts")
        terminal.until("nothing here")
        terminal.type("q")
        terminal.say("/exit")
        assert terminal.end() == 0


async def test_a_login_is_seen_and_revoked(tmp_path: Path) -> None:
    user = Desk(tmp_path)
    async with Rotating() as server:
        assert (await user.logs_in(server.url)).code == 0

        def look() -> None:
            with AtHost(tmp_path, XDG_CONFIG_HOME=str(user.config)) as terminal:
                terminal.ready()
                terminal.say("/accounts")
                terminal.until(server.url, "x log out")
                terminal.type("x")
                terminal.until_at_cursor("[y] log out at")
                terminal.type("y")
                terminal.until("Logged out at", "nothing here")
                terminal.type("q")
                assert terminal.leave() == 0
                assert "r1" not in terminal.transcript

        await asyncio.to_thread(look)
        assert server.revoked == ["r1"]


async def test_a_prompt_as_it_is_reaches_the_model_as_its_servers(tmp_path: Path) -> None:
    async with endpoint(openai_answer({"content": "Dear Ann."})) as told:

        def send() -> None:
            with AtHost(tmp_path, "--model", f"openai:tiny@{told.url}/v1", model=False) as terminal:
                terminal.ready()
                terminal.say("/mcp.desk.letter to=Ann tone=kind")
                terminal.until_at_cursor("[y] send")
                terminal.type("y")
                terminal.until("Dear Ann.")
                terminal.say("/mcp.desk.letter to=Bob tone=kind")
                terminal.until_at_cursor("[y] send")
                terminal.type("e")
                terminal.answer("Ctrl-S or Esc Enter: save", CLEAR + "=== user ===\rWrite to Bob." + CTRL_S)
                terminal.until("| Write to Bob.")
                terminal.until_at_cursor("[y] send")
                terminal.type("y")
                terminal.until_true(lambda: terminal.transcript.count("Dear Ann.") == 2, "the second answer")

        await asyncio.to_thread(send)
    first, second = (asked.body["messages"][-1]["content"] for asked in told.asked)
    assert re.sub("-[0-9a-f]{10}", "", first) == (
        '<from-server name="desk" kind="prompt">\nWrite a kind letter to Ann.\n</from-server>'
    )
    assert second == "Write to Bob."
    assert 'kind="prompt" the user has read and sent' in told.asked[0].body["messages"][0]["content"]
