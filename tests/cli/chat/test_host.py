"""The terminal application as a person uses it: approval, edits, refusal, forms, and a stop that reaches the server."""

import json
import os
import re
import shlex
import signal
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.chat.at_host import CLEAR, CTRL_C, CTRL_D, CTRL_S, ENTER, ESC, UP, YOU, AtHost
from tests.cli.invoke import dovetail, environment
from tests.support.emulated import Emulated
from tests.support.raw import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")


def test_a_server_starts_with_consent_to_its_exact_command(tmp_path: Path) -> None:
    with AtHost(tmp_path, launch=False) as terminal:
        terminal.until('May "desk" be started?', "[a] always")
        seen = terminal.flowing
        assert f"{sys.executable} " in seen and "desk.py" in seen and f"DESK_NOTES={terminal.notes}" in seen
        terminal.type("a")
        terminal.ready()
        assert terminal.leave() == 0
    with AtHost(tmp_path, launch=False) as terminal:
        terminal.ready()
        assert 'May "desk" be started?' not in terminal.transcript
        assert terminal.leave() == 0


def test_a_refused_server_is_not_started_and_the_program_lives(tmp_path: Path) -> None:
    with AtHost(tmp_path, launch=False) as terminal:
        terminal.answer("[n] no", "n")
        terminal.until("! desk is not running")
        terminal.say("hello")
        terminal.until("I do not know.")
        assert terminal.leave() == 0


def test_a_call_is_approved_and_the_answer_streams_in(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("please add")
        seen = terminal.until('May the tool "add" of "desk" be called?', "[y] once")
        assert '"a": 1' in seen and '"b": 2' in seen and "| Add two numbers." in seen
        terminal.type("y")
        seen = terminal.until("Added.")
        assert "  < 3" in seen
        assert terminal.leave() == 0


def test_a_yes_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("please add")
        terminal.answer("[s] this session", "s")
        terminal.until("Added.")
        terminal.say("add again")
        terminal.until_true(lambda: terminal.transcript.count("Added.") == 2, "the second answer")
        assert terminal.transcript.count('May the tool "add"') == 1


def test_edited_arguments_are_those_that_the_server_gets(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("please add")
        terminal.answer("[e] edit", "e")
        terminal.answer("Ctrl-S or Esc Enter: save", CLEAR + '{"a": 40, "b": "two"}' + CTRL_S)
        terminal.until("  b: ", "Ctrl-S or Esc Enter: save")
        terminal.type(CLEAR + '{"a": 40, "b": 2}' + CTRL_S)
        terminal.until("arguments, edited:", '"a": 40')
        terminal.answer("[e] edit", "y")
        assert "  < 42" in terminal.until("Added.")


def test_a_refusal_reaches_the_model_and_not_the_server(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("sleep now")
        terminal.answer("[n] no", "n")
        seen = terminal.until("Awake.")
        assert "x sleep was refused" in seen
        assert not terminal.notes.exists()


def test_a_form_names_the_server_and_is_filled_in(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("plan a trip")
        terminal.answer("[y] once", "y")
        terminal.until('── "desk" asks for input', "| Where do we send the bill?")
        for label, text in (
            ("Your name:", "A"),
            ("at least 2 characters", "Ann"),
            ("nights (a whole number) [2]:", "3"),
            ("price (a number) [9.5]:", ""),
            ("breakfast (yes/no) [yes]:", "no"),
            ("room (1-2) [single]:", "2"),
            ("extras (several, with commas, optional):", ""),
            ("remark (optional):", ""),
        ):
            terminal.answer(label, text + ENTER)
        terminal.answer("[y] yes", "y")
        terminal.answer("sure (yes/no):", "y" + ENTER)
        terminal.until("3 nights for Ann?")
        terminal.answer("[y] yes", ENTER)  # yes is selected
        terminal.until("About the trip: done.")
        assert "Trip(name='Ann', nights=3" in terminal.transcript


@pytest.mark.parametrize(("letter", "action"), [("a", "accept"), ("d", "decline"), ("c", "cancel")])
def test_a_page_is_shown_whole_with_its_host_apart(letter: str, action: str, tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("sign in")
        terminal.answer("[y] once", "y")
        seen = terminal.until("[c] cancel")
        assert "It wants you to go to example.com:" in seen and "https://example.com/sign-in?x=1" in seen
        terminal.type(letter)
        assert f"  < {action}" in terminal.until("About the page: done.")


def test_a_server_that_asks_a_model_is_asked_about_twice(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("think")
        terminal.answer('May the tool "think"', "")
        terminal.answer("[v] whole definition", "y")
        terminal.until('May "desk" ask the model "talk"?', "What is 6 times 7?", "[w] no, because")
        terminal.type("y")
        terminal.until('May "desk" see what the model said?', "| 42")
        terminal.until_at_cursor("[y] once")
        terminal.type("e")
        terminal.answer("Ctrl-S or Esc Enter: save", CLEAR + "43" + CTRL_S)
        terminal.until("| 43")
        terminal.until_at_cursor("[y] once")
        terminal.type("y")
        assert "  < it said 43" in terminal.until("Thought.")


def test_ctrl_c_stops_the_turn_reaches_the_server_and_not_the_program(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("sleep now")
        terminal.answer("[y] once", "y")
        terminal.until("10% sleep: sleeping")
        assert terminal.notes.read_text() == "asleep"
        terminal.type(CTRL_C)
        terminal.until("(stopped)")
        eventually(lambda: terminal.notes.read_text() == "cancelled", "the server hears of it")
        assert "10%" not in terminal.until_prompt()
        terminal.say("please add")
        terminal.answer("[w] no, because", "y")
        terminal.until("Added.")
        assert terminal.leave() == 0


def test_ctrl_c_at_a_question_stops_the_turn(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("sleep now")
        terminal.answer("[y] once", CTRL_C)
        terminal.until("(stopped)")
        terminal.until_prompt()
        assert "Awake." not in terminal.transcript
        assert not terminal.notes.exists()
        assert terminal.leave() == 0


def test_ctrl_c_in_a_form_stops_the_turn(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("plan a trip")
        terminal.answer("[y] once", "y")
        terminal.answer("Your name:", CTRL_C)
        terminal.until("(stopped)")
        terminal.until_prompt()
        assert terminal.leave() == 0


def test_ctrl_c_clears_a_line_and_twice_at_an_empty_one_leaves(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.type("never said")
        terminal.until(f"{YOU} never said")
        terminal.type(CTRL_C)
        terminal.until_gone("never said")
        terminal.until_prompt()
        terminal.type(CTRL_C)
        terminal.until("Press Ctrl-C again, or Ctrl-D, to quit.")
        terminal.until_prompt()
        terminal.type(CTRL_C)
        assert terminal.end() == 0
        assert "Traceback" not in terminal.transcript


def test_open_questions_end_with_the_program(tmp_path: Path) -> None:
    with AtHost(tmp_path, launch=False) as terminal:
        terminal.until("[y] once")
        terminal.type(CTRL_D)
        terminal.until_prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "Traceback" not in terminal.transcript


def test_without_colours_none_are_shown(tmp_path: Path) -> None:
    with AtHost(tmp_path, NO_COLOR="1") as terminal:
        terminal.ready()
        terminal.say("please add")
        terminal.answer("[y] once", "y")
        terminal.until("Added.")
        coloured = re.findall(rb"\x1b\[[0-9;]*[34][0-7][0-9;]*m", terminal.raw)
        assert coloured == []


def test_without_a_model_it_inspects_and_says_how_to_add_one(tmp_path: Path) -> None:
    with AtHost(tmp_path, model=False) as terminal:
        seen = terminal.until("No model is configured", "OPENAI_API_KEY")
        assert "models.toml" in seen.replace("\n", "")
        terminal.ready()
        terminal.say("/call desk__add a=2 b=3")
        terminal.answer("[y] once", "y")
        assert "| 5" in terminal.until("| 5")
        terminal.say("hello")
        terminal.until("no model is configured")
        assert terminal.leave() == 0


def test_it_needs_a_terminal(tmp_path: Path) -> None:
    done = dovetail("host", cwd=tmp_path)
    assert done.code == 1 and "dovetail ask" in done.err


def test_it_asks_nobody_who_cannot_see_the_question(tmp_path: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m dovetail.cli host > {shlex.quote(str(tmp_path / 'out'))}"
    with Emulated(["/bin/sh", "-c", line], environment(HOME=str(tmp_path))) as terminal:
        terminal.until("needs a terminal")
        assert terminal.end() == 1


def test_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['prompt_toolkit'] = None; from dovetail.cli import main; sys.exit(main(['host']))"
    with Emulated([sys.executable, "-c", code], environment(HOME=str(tmp_path))) as terminal:
        terminal.until("pip install 'dovetail-mcp[cli]'")
        assert terminal.end() == 1


def test_a_signal_at_the_prompt_does_no_harm(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.say("please add")
        terminal.answer("[y] once", CTRL_D)
        terminal.until("x add was refused")
        assert terminal.leave() == 0


FLEETING = str(Path(__file__).parent / "programs" / "fleeting.py")


def test_a_form_goes_with_the_server_that_asked(tmp_path: Path) -> None:
    with AtHost(tmp_path, server=FLEETING) as terminal:
        terminal.ready()
        terminal.say("plan a trip")
        terminal.answer("[y] once", "y")
        terminal.answer("word:", "half a wo")
        terminal.notes.unlink()
        terminal.until('the question of "desk" was withdrawn', "About the trip: done.")
        terminal.until_prompt()
        assert "half a wo" not in terminal.screen
        assert terminal.leave() == 0


def test_a_secret_is_asked_for_once_and_never_shown(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [FLEETING], "env": {"SECRET": "${input:word}"}}
    entry["env"]["DESK_NOTES"] = str(tmp_path / "notes")
    inputs = [{"id": "word", "type": "promptString", "description": "The magic word", "password": True}]
    (tmp_path / "vscode.json").write_text(json.dumps({"servers": {"other": entry}, "inputs": inputs}))
    more = ("--config", str(tmp_path / "vscode.json"), "--launch", "other")
    with AtHost(tmp_path, *more) as terminal:
        terminal.until('"other" needs "The magic word"')
        terminal.answer("word:", "hush" + ENTER)
        terminal.until("other is ready")
        assert (tmp_path / "notes").read_text() == "hush"
        assert b"hush" not in terminal.raw
        assert terminal.leave() == 0
    with AtHost(tmp_path, *more) as terminal:
        terminal.until("other is ready")
        assert "magic" not in terminal.transcript
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and b"hush" in path.read_bytes()[:10_000_000] and path.name != "notes"
    ]


def test_ctrl_c_that_comes_with_enter_counts(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.type("sleep now" + ENTER + CTRL_C)
        terminal.until("(stopped)")
        terminal.until_prompt()
        assert not terminal.notes.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_the_terminal_in_order(number: signal.Signals, tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        before = terminal.settings()
        assert not before & termios.ICANON
        os.kill(terminal.process.pid, number)
        assert terminal.end() == 143
        assert "Traceback" not in terminal.transcript
        assert terminal.settings() & termios.ICANON and terminal.settings() & termios.ECHO


def test_what_was_said_is_kept_for_another_time_and_answers_are_not(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("sign in")
        terminal.answer("[y] once", "y")
        terminal.answer("[c] cancel", "c")
        terminal.until("About the page: done.")
        assert terminal.leave() == 0
    history = tmp_path / "user" / "dovetail" / "history"
    assert re.findall(r"^\+(.*)$", history.read_text(), re.MULTILINE) == ["sign in"]
    assert history.stat().st_mode & 0o077 == 0


def test_what_is_typed_ahead_is_not_lost(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER + "and again" + ENTER)
        terminal.until("you> and again")
        terminal.until_true(lambda: terminal.transcript.count("I do not know.") == 2, "both answers")
        assert terminal.leave() == 0


def test_calls_side_by_side_say_whose_results_are_whose(tmp_path: Path) -> None:
    with AtHost(tmp_path, "--allow", "desk") as terminal:
        terminal.ready()
        terminal.say("both please")
        terminal.until("Both.", "< desk: say: yyy", "< desk: echo: ")
        # A long line of a server never goes on at the left edge, where our own lines begin.
        assert not any(line.startswith("y") and line != YOU and "y" * 5 in line for line in terminal.screen.split("\n"))
        assert "y" * 200 in terminal.flowing


def test_a_model_with_nothing_to_say(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("be quiet")
        terminal.until("(the model gave no answer)")
        assert terminal.leave() == 0


def test_a_conversation_is_saved_resumed_and_exported_without_its_approvals(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("please add")
        terminal.answer("[s] this session", "s")
        terminal.until("Added.")
        assert terminal.leave() == 0
    (saved,) = (tmp_path / "user" / "dovetail" / "conversations").iterdir()
    assert saved.stat().st_mode & 0o077 == 0
    with AtHost(tmp_path, "--resume") as terminal:
        terminal.until("Resumed: please add (4 messages).", "Added.")
        terminal.ready()
        terminal.say("add again")
        # A yes for the session ended with its session.
        terminal.answer('May the tool "add"', "")
        terminal.answer("[y] once", "y")
        terminal.until_true(lambda: terminal.transcript.count("Added.") == 2, "the second answer")
        terminal.say(f"/export {tmp_path / 'talk.md'}")
        terminal.until("8 messages are in")
        terminal.say("/clear")
        terminal.until("A new conversation.")
        terminal.say("/resume")
        terminal.until("> 20", "please add", "talk, 8 messages", "Enter resume")
        terminal.type(ENTER)
        terminal.until("Resumed: please add (8 messages).")
        assert terminal.leave() == 0
    text = (tmp_path / "talk.md").read_text()
    assert "## User" in text and "**Calls `desk__add`**" in text and "from-server" not in text
    assert len(list(saved.parent.iterdir())) == 1


def test_a_conversation_is_not_saved_if_the_user_does_not_want_it(tmp_path: Path) -> None:
    with AtHost(tmp_path, "--no-save") as terminal:
        terminal.ready()
        terminal.say("hello")
        terminal.until("I do not know.")
        terminal.say("/resume")
        terminal.until("There is no saved conversation.")
        assert terminal.leave() == 0
    assert not (tmp_path / "user" / "dovetail" / "conversations").exists()


def test_a_conversation_that_is_not_there_is_said_before_anything_starts(tmp_path: Path) -> None:
    with AtHost(tmp_path, "--resume", "nosuch") as terminal:
        terminal.until("dovetail: There is no saved conversation")
        assert terminal.end() == 1


def test_esc_stops_the_turn_and_other_keys_are_kept_for_the_next_line(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("sleep now")
        terminal.answer("[y] once", "y")
        terminal.until("10% sleep: sleeping")
        terminal.type("typed ahead")
        terminal.type(UP)  # begins with Esc, and is none
        terminal.read_for(0.2)
        assert "(stopped)" not in terminal.screen
        terminal.type(ESC)
        terminal.until("(stopped)", f"{YOU} typed ahead")
        eventually(lambda: terminal.notes.read_text() == "cancelled", "the server hears of it")


@pytest.mark.parametrize("newline", [ESC + ENTER, "\n", "\\" + ENTER], ids=["Alt-Enter", "Ctrl-J", "backslash"])
def test_a_message_has_several_lines(newline: str, tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.type("first line" + newline + "please add" + ENTER)
        terminal.until('May the tool "add" of "desk" be called?')
        assert "you> first line\n     please add\n" in terminal.transcript
        terminal.type("n")


def test_history_is_searched_across_runs(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.say("a quiet walk")
        terminal.until("(the model gave no answer)")
        assert terminal.leave() == 0
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.type("\x12quiet")
        terminal.until("a quiet walk")
        terminal.type(ENTER + ENTER)
        terminal.until("(the model gave no answer)")


def test_the_status_line_has_the_model_the_servers_and_the_tokens(tmp_path: Path) -> None:
    with AtHost(tmp_path) as terminal:
        terminal.ready()
        terminal.until("  talk · 1/1 servers ready")
        terminal.say("hello")
        seen = terminal.until("I do not know.", "servers ready ·", "tokens in,")
        assert re.search(r"talk · 1/1 servers ready · \d+ tokens +/help$", seen)


def test_a_dumb_terminal_gets_no_escapes(tmp_path: Path) -> None:
    with AtHost(tmp_path, dumb=True) as terminal:
        terminal.until("desk is ready")
        terminal.until_true(lambda: terminal.screen.rpartition("\n")[2] == YOU, "the prompt again, after the news")
        terminal.type("please add\n")
        terminal.answer("[w] no, because", "y\n")
        terminal.until("Added.", "tokens in")
        terminal.type("/tools\n")
        terminal.until("number and action", "add")
        terminal.type("\n")
        terminal.until_true(lambda: terminal.screen.rpartition("\n")[2] == YOU, "the prompt")
        terminal.type(CTRL_C)
        terminal.until("Press Ctrl-C again")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.raw
        assert all(len(line) <= 80 for line in terminal.raw.decode().split("\n"))
