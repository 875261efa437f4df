"""The other verbs: `list`, `read`, `prompt`, `ping`, `snapshot`, and the command itself."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from dovetail.cli.examples import EXAMPLES
from dovetail.cli.parser import COMMANDS, parse
from dovetail.config.programs import PROGRAMS
from dovetail.protocol.revisions import REVISIONS
from tests.cli.invoke import COMMAND, DESK, AtTerminal, dovetail, environment

PROGRAM_NAMES = ", ".join(sorted(program.name for program in PROGRAMS))


def test_the_help_lists_all_commands() -> None:
    done = dovetail()
    assert done.code == 1
    for command in COMMANDS:
        assert f"\n  {command} " in done.out


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_is_printed(word: str) -> None:
    from dovetail import __version__

    assert dovetail(word).out == f"dovetail {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = dovetail(command, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: dovetail {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_that_can_be_typed(command: str) -> None:
    assert EXAMPLES[command]
    for example in EXAMPLES[command]:
        command_line = example.removeprefix('eval "$(').removesuffix(')"')
        words = shlex.split(re.sub(r" \| (Out-String|source)\b.*", "", command_line))
        at = words.index("dovetail")
        assert words[at + 1] == command
        parse(command, words[at + 2 :])


def test_help_is_a_command_too() -> None:
    assert dovetail("help").out == dovetail("--help").out
    done = dovetail("help", "call")
    assert (done.code, done.out) == (0, dovetail("call", "--help").out)
    assert "\nexamples:\n  dovetail call server.py add a=2 b=3\n" in done.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("lst", "there is no command 'lst'; did you mean list? See `dovetail --help`."),
        ("help lst", "there is no command 'lst'; did you mean list? See `dovetail --help`."),
        ("list", "missing TARGET. See `dovetail list --help`."),
        ("call", "missing TARGET, TOOL. See `dovetail call --help`."),
        ("audit", "missing show|verify|export. See `dovetail audit --help`."),
        (
            "call x y --timeout abc",
            "argument --timeout: 'abc' is not a number of seconds. See `dovetail call --help`.",
        ),
        (
            "install x --into cluade",
            f"argument --into: invalid choice: 'cluade' (choose from {PROGRAM_NAMES}); did you mean claude-code or "
            "claude-desktop? See `dovetail install --help`.",
        ),
        (
            "list x --format jsn",
            "argument --format: invalid choice: 'jsn' (choose from text, json); did you mean json? "
            "See `dovetail list --help`.",
        ),
        ("-q list x", "options follow the command: dovetail list x -q. See `dovetail --help`."),
        ("--timeout 3 list x", "options follow the command: dovetail list x --timeout 3. See `dovetail --help`."),
        ("-q", "there is no option -q before the command. See `dovetail --help`."),
        ("call x y --timout 3", "there is no option --timout; did you mean --timeout? See `dovetail call --help`."),
        ("ping x y", "unexpected argument 'y'. See `dovetail ping --help`."),
        (
            "watch x --count 0",
            "argument --count: the number of changes is a whole number, 1 or more, not '0'. "
            "See `dovetail watch --help`.",
        ),
    ],
)
def test_a_typo_costs_one_line(words: str, complaint: str) -> None:
    done = dovetail(*words.split())
    assert (done.code, done.out, done.err) == (1, "", f"dovetail: {complaint}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [["list", DESK], ["list", "--help"], ["version"]])
def test_output_that_cannot_be_written_costs_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=60
        )
    assert (done.returncode, done.stderr) == (5, "dovetail: The output cannot be written: No space left on device\n")


def test_list_shows_signatures_and_tables() -> None:
    out = dovetail("list", DESK).out
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "Tools",
        "Resources",
        "Resource templates",
        "Prompts",
    ]
    assert "  add(a: int, b: int = 1) -> int\n      Add two numbers.\n" in out
    assert "  letter  to [tone]  Write a letter." in out


def test_list_for_scripts() -> None:
    result = dovetail("list", DESK, "--format", "json").result
    assert list(result) == ["tools", "resources", "resourceTemplates", "prompts"]
    assert {tool["name"] for tool in result["tools"]} >= {"add", "book"}
    assert result["resourceTemplates"][0]["uriTemplate"] == "desk://drawer/{number}"


def test_list_of_one_kind() -> None:
    assert list(dovetail("list", DESK, "prompts", "--format", "json").result) == ["prompts"]
    assert dovetail("list", DESK, "things").code == 1


def test_list_of_what_a_server_has_not(tmp_path: Path) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text("from dovetail import Server\nserver = Server('bare')\n")
    assert dovetail("list", str(bare)).out == "Nothing.\n"
    assert dovetail("list", str(bare), "--format", "json").result == {}
    assert dovetail("list", str(bare), "tools").code == 5


def test_read_gives_the_contents_and_nothing_else(tmp_path: Path) -> None:
    assert dovetail("read", DESK, "desk://note").raw == b"Back at nine.\n"
    assert dovetail("read", DESK, "desk://stamp").raw == b"\x00\x01\xff"
    assert dovetail("read", DESK, "desk://drawer/7").raw == b"drawer 7"
    target = tmp_path / "stamp"
    done = dovetail("read", DESK, "desk://stamp", "-o", str(target))
    assert (done.out, target.read_bytes()) == ("", b"\x00\x01\xff")
    assert dovetail("read", DESK, "desk://stamp", "-o", str(tmp_path / "no" / "folder")).code == 1


def test_a_resource_at_a_terminal_is_formatted_and_ends_with_a_line(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(
        "from dovetail import Server\nserver = Server('s')\n"
        "@server.resource('s://x', mime_type='application/json')\ndef x() -> str: return '{\"a\":{\"b\":1}}'\n"
    )
    with AtTerminal("read", str(file), "s://x", TERM="dumb") as terminal:
        assert terminal.end() == (0, '{\n  "a": {\n    "b": 1\n  }\n}\n')
    assert dovetail("read", str(file), "s://x").raw == b'{"a":{"b":1}}'


def test_the_result_goes_to_a_file_and_a_failure_leaves_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "out"
    done = dovetail("list", DESK, "prompts", "-o", str(file))
    assert (done.code, done.out, done.err) == (0, "", "") and file.read_text().startswith("Prompts\n  name ")
    done = dovetail("call", DESK, "add", "a=1", "--format", "json", "--output", str(file))
    assert (done.code, done.out) == (0, "") and json.loads(file.read_text())["result"]["structuredContent"] == 2
    assert dovetail("call", DESK, "fail", "-o", str(file)).code == 5
    assert json.loads(file.read_text())
    assert dovetail("call", DESK, "fail", "-o", str(tmp_path / "new")).code == 5
    assert not (tmp_path / "new").exists()
    done = dovetail("call", DESK, "add", "a=1", "-o", str(tmp_path / "no" / "folder"))
    assert (done.code, done.err) == (
        1,
        f"dovetail: {tmp_path}/no/folder cannot be written: No such file or directory\n",
    )


def test_quiet_leaves_only_the_result_and_errors(tmp_path: Path) -> None:
    file = tmp_path / "loud.py"
    file.write_text(
        "import sys\nfrom dovetail import Server\nserver = Server('s')\n"
        "@server.tool\ndef shout(loud: bool = True) -> str:\n"
        "    print('AAH', file=sys.stderr, flush=True)\n    return 'done'\n"
    )
    assert "AAH" in dovetail("call", str(file), "shout").err
    done = dovetail("call", str(file), "shout", "-q")
    assert (done.out, done.err) == ("done\n", "")
    assert dovetail("call", str(file), "whisper", "-q").err != ""


def test_read_for_scripts() -> None:
    [part] = dovetail("read", DESK, "desk://stamp", "--format", "json").result["contents"]
    assert part == {"uri": "desk://stamp", "mimeType": "application/octet-stream", "blob": "AAH/"}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_resource_that_is_not_there_is_5(revision: str) -> None:
    done = dovetail("read", DESK, "desk://nothing", "--revision", revision, "--format", "json")
    assert done.code == 5 and "desk://nothing" in done.error["message"]


def test_prompt_prints_the_messages() -> None:
    assert dovetail("prompt", DESK, "letter", "to=Ann", "tone=stern").out == "user: Write a stern letter to Ann.\n"
    result = dovetail("prompt", DESK, "letter", "to=Ann", "--format", "json").result
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "Write a kind letter to Ann."}}]
    assert dovetail("prompt", DESK, "letter").code == 5
    assert dovetail("prompt", DESK, "letter", "Ann").code == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_ping_prints_name_revision_and_time(revision: str) -> None:
    done = dovetail("ping", DESK, "--revision", revision, "--trace")
    name = "The Desk" if revision >= "2025-06-18" else "desk"
    assert done.out.startswith(f"{name} 2.0.0 answers on {revision} in ")
    assert done.out.endswith("Knock first.\n")
    method = "server/discover" if revision == "2026-07-28" else "ping"
    assert f'"method":"{method}"' in done.err


def test_ping_for_scripts() -> None:
    result = dovetail("ping", DESK, "--format", "json").result
    assert result["server"]["name"] == "desk" and result["revision"] == "2026-07-28"
    assert result["capabilities"]["tools"] == {"listChanged": True}


@pytest.mark.parametrize("revision", REVISIONS)
def test_complete_prints_values(revision: str) -> None:
    done = dovetail("complete", DESK, "letter", "tone", "k", "--revision", revision)
    assert (done.code, done.out, done.err) == (0, "kind\nkeen\n", "")


def test_complete_with_what_is_settled_and_for_a_template() -> None:
    assert dovetail("complete", DESK, "letter", "tone", "--context", "to=the bank").out == "stern\n"
    result = dovetail("complete", DESK, "desk://drawer/{number}", "number", "--format", "json").result
    assert len(result["values"]) == 100 and result["total"] == 199 and result["hasMore"] is True
    assert dovetail("complete", DESK, "nothing", "tone").code == 5


@pytest.mark.parametrize("revision", REVISIONS)
def test_watch_tells_of_lists(revision: str) -> None:
    words = ["watch", DESK, "--tools", "--count", "2", "--revision", revision]
    done = dovetail(*words, "--format", "json", "--env", "DESK_BUSY=1")
    assert done.code == 0
    assert [json.loads(line) for line in done.out.splitlines()] == [{"result": {"kind": "tools"}}] * 2


@pytest.mark.parametrize("revision", REVISIONS)
def test_watch_tells_of_resources(revision: str) -> None:
    done = dovetail("watch", DESK, "desk://note", "--count", "1", "--revision", revision, "--env", "DESK_BUSY=1")
    assert done.code == 0, done.err
    assert done.out.endswith(" desk://note changed\n")
    assert done.err == "Watching desk://note; Ctrl-C ends it.\n"


def test_snapshot_written_compared_and_differing(tmp_path: Path) -> None:
    file = tmp_path / "desk.json"
    assert dovetail("snapshot", DESK, str(file)).out == f"Written to {file}.\n"
    assert dovetail("snapshot", DESK, str(file), "--check").out == f"The server is as {file} says.\n"
    shown = json.loads(dovetail("snapshot", DESK).out)
    assert shown == json.loads(file.read_text())
    file.write_text(file.read_text().replace("Add two numbers.", "Add numbers."))
    done = dovetail("snapshot", DESK, str(file), "--check")
    assert done.code == 5
    assert "add" in done.err and "Add numbers." in done.err
    done = dovetail("snapshot", DESK, str(file), "--check", "--format", "json")
    assert (done.code, done.error["code"]) == (5, "changed")


def test_a_missing_snapshot_is_an_error(tmp_path: Path) -> None:
    assert dovetail("snapshot", DESK, "--check").code == 1
    assert dovetail("snapshot", DESK, str(tmp_path / "none.json"), "--check").code == 1


def test_the_help_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    from tests.cli.invoke import environment

    code = (
        "import sys; from dovetail.cli import main; main([]);"
        "print(*{'asyncio', 'msgspec', 'logging'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60)
    assert done.stderr.split() == []
