"""The other verbs: `list`, `read`, `prompt`, `ping`, `snapshot`, and the command itself."""

import json
from pathlib import Path

import pytest

from dovetail.cli.parser import COMMANDS
from dovetail.protocol.revisions import REVISIONS
from tests.cli.invoke import DESK, dovetail


def test_the_help_lists_all_commands() -> None:
    done = dovetail()
    assert done.code == 1
    for command in COMMANDS:
        assert f"\n  {command} " in done.out


def test_the_version_is_printed() -> None:
    from dovetail import __version__

    assert dovetail("--version").out == f"dovetail {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = dovetail(command, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: dovetail {command}")


def test_a_misspelt_command_gets_a_suggestion() -> None:
    done = dovetail("lst")
    assert (done.code, done.err.splitlines()[0]) == (1, "dovetail: there is no command 'lst'; did you mean list?")


def test_list_shows_tables() -> None:
    out = dovetail("list", DESK).out
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "Tools",
        "Resources",
        "Resource templates",
        "Prompts",
    ]
    assert "  add      a [b]" in out and "Add two numbers." in out
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
    done = dovetail(*words, "--format", "json", DESK_BUSY="1")
    assert done.code == 0
    assert [json.loads(line) for line in done.out.splitlines()] == [{"result": {"kind": "tools"}}] * 2


@pytest.mark.parametrize("revision", REVISIONS)
def test_watch_tells_of_resources(revision: str) -> None:
    done = dovetail("watch", DESK, "desk://note", "--count", "1", "--revision", revision, DESK_BUSY="1")
    assert done.code == 0, done.err
    assert done.out.endswith(" desk://note changed\n")


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
