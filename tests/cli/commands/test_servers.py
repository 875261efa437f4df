"""`dovetail servers`, and names of configured servers as targets."""

import json
import sys
from pathlib import Path

import pytest

from dovetail.cli.options.last_errors import LastErrors
from dovetail.host.events import HostEvent, ServerStatus
from dovetail.host.servers.state import State
from tests.cli.invoke import DESK, dovetail

WEATHER = {"command": sys.executable, "args": [DESK], "env": {"API_KEY": "s3cret-value", "MODE": "fast"}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".config" / "dovetail").mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def write(file: Path, **servers: object) -> None:
    file.write_text(json.dumps({"mcpServers": servers}))


def run(home: Path, project: Path, *words: str):
    return dovetail(*words, cwd=project, HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"))


def test_servers_of_the_project_and_of_the_user_are_listed_with_their_files(home: Path, project: Path):
    write(project / "mcp.json", weather=WEATHER, broken={"comand": "x"})
    write(home / ".config/dovetail/mcp.json", weather=WEATHER, forge={"url": "https://forge.example.com/mcp"})
    servers = run(home, project, "servers", "--format", "json").result["servers"]
    shown = [(each["name"], each["transport"], each["scope"], each["used"], each["approval"]) for each in servers]
    assert shown == [
        ("weather", "stdio", "project", True, "not approved"),
        ("broken", None, "project", True, None),
        ("weather", "stdio", "user", False, "not approved"),
        ("forge", "http", "user", True, "not approved"),
    ]
    text = run(home, project, "servers")
    assert "broken" in text.out
    assert "cannot start" in text.out
    assert "neither a command nor a url" in text.out
    assert "did you mean 'command'?" in text.err


def test_one_server_is_shown_in_full_without_its_secrets(home: Path, project: Path):
    write(project / "mcp.json", weather=WEATHER)
    text = run(home, project, "servers", "weather").out
    assert DESK in text
    assert "MODE=fast" in text
    assert "s3cret-value" not in text


def test_a_server_that_is_ready_is_not_called_unapproved(home: Path, project: Path):
    write(home / ".config/dovetail/mcp.json", weather=WEATHER)
    write(project / "mcp.json", cloned=WEATHER)
    text = run(home, project, "servers", "weather").out
    assert "(ready)" in text and "approv" not in text
    assert "approval   not approved" in run(home, project, "servers", "cloned").out


def test_an_unknown_name_gets_the_one_that_was_meant(home: Path, project: Path):
    write(project / "mcp.json", weather=WEATHER)
    assert (
        run(home, project, "servers", "wether", "--format", "json").error["message"].endswith("did you mean weather?")
    )
    failed = run(home, project, "list", "wether")
    assert failed.code == 4
    assert "no file, program or configured server 'wether'; did you mean weather?" in failed.err


def test_a_file_that_cannot_be_read_hides_no_other(home: Path, project: Path):
    (project / "mcp.json").write_text("{")
    write(home / ".config/dovetail/mcp.json", weather=WEATHER)
    done = run(home, project, "servers", "--format", "json")
    assert [each["name"] for each in done.result["servers"]] == ["weather"]
    assert "mcp.json:1" in done.result["warnings"][0]


def test_a_check_starts_what_may_start_and_says_how_it_went(home: Path, project: Path):
    write(project / "mcp.json", cloned=WEATHER)
    dead = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    write(home / ".config/dovetail/mcp.json", weather=WEATHER, dead=dead)
    done = run(home, project, "servers", "--check", "--format", "json")
    assert done.code == 5
    checks = {each["name"]: each["check"] for each in json.loads(done.out)["result"]["servers"]}
    assert checks["weather"]["tools"] > 0
    assert checks["cloned"]["skipped"].startswith("not approved")
    assert "exited with code 3" in checks["dead"]["error"]


def test_a_server_of_the_users_own_file_is_a_target_by_its_name(home: Path, project: Path):
    write(home / ".config/dovetail/mcp.json", weather=WEATHER)
    assert run(home, project, "list", "weather", "tools", "--format", "json").result["tools"]


def test_a_server_of_a_projects_file_does_not_start_without_approval(home: Path, project: Path):
    mark = project / "started"
    program = ["-c", f"open({str(mark)!r}, 'w')"]
    write(project / "mcp.json", weather={"command": sys.executable, "args": program})
    for target in ("weather", "mcp.json", "mcp.json#weather", "./mcp.json"):
        refused = run(home, project, "list", target, "--format", "json")
        assert refused.error["code"] == "refused"
        assert "was not approved yet" in refused.error["message"]
        assert not mark.exists()
    run(home, project, "list", "weather", "--yes")
    assert mark.exists()


def test_a_disabled_server_is_not_started_by_its_name(home: Path, project: Path):
    write(home / ".config/dovetail/mcp.json", weather={**WEATHER, "disabled": True})
    assert "`dovetail enable weather`" in run(home, project, "list", "weather").err


def test_a_configuration_file_with_several_servers_says_their_names(home: Path, project: Path):
    write(project / "mcp.json", a=WEATHER, b=WEATHER)
    assert "name one: mcp.json#a, mcp.json#b" in run(home, project, "list", "mcp.json").err


SERVER = """
import sys
from dovetail import Server

server = Server("inn")

@server.tool
def words() -> list[str]:
    return sys.argv[1:]
"""


@pytest.mark.parametrize("target", [["server.py"], ["."], ["-m", "server"], ["server.py:server"]])
def test_arguments_after_dashes_reach_the_server(target: list[str], home: Path, project: Path):
    (project / "server.py").write_text(SERVER)
    done = run(home, project, "call", *target, "words", "--format", "json", "--", "--db", "x y")
    assert done.result["structuredContent"] == ["--db", "x y"]


def test_a_url_takes_no_arguments(home: Path, project: Path):
    assert "is not" in run(home, project, "list", "localhost:9/mcp", "--", "x").err


def test_a_folder_without_a_server_is_a_helpful_error(home: Path, project: Path):
    (project / "one.py").write_text("x = 1")
    assert "is a folder with no server.py; name one of one.py" in run(home, project, "list", ".").err


def test_a_folder_with_a_package_in_src_is_the_server_of_that_package(home: Path, project: Path):
    for name in ("inn", "shop"):
        (project / "src" / name).mkdir(parents=True)
        (project / "src" / name / "server.py").write_text("from dovetail import Server\nserver = Server('x')\n")
        listed = run(home, project, "list", ".")
        assert listed.out == ("Nothing.\n" if name == "inn" else ""), "of two packages none is chosen"


def test_a_module_that_is_not_there_is_named(home: Path, project: Path):
    assert "There is no module nosuch.server" in run(home, project, "list", "-m", "nosuch.server").err


def test_the_last_error_of_a_server_is_shown_until_it_starts(home: Path, project: Path):
    mine = home / ".config/dovetail/mcp.json"
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit('no database')"]}
    write(mine, weather=broken)
    assert run(home, project, "servers", "--check").code == 5
    shown = run(home, project, "servers")
    assert "weather: last error, " in shown.out
    assert "exited with code 1" in shown.out
    assert "no database" in run(home, project, "servers", "weather").out
    write(mine, weather={"command": sys.executable, "args": [DESK]})
    assert run(home, project, "servers", "--check").code == 0
    assert "last error" not in run(home, project, "servers").out


def test_a_host_keeps_the_error_of_a_server_that_does_not_run(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))

    def status(state: State, error: str | None = None) -> HostEvent:
        return HostEvent(kind="status", server="weather", detail=ServerStatus(key="weather", state=state, error=error))

    with LastErrors() as errors:
        errors.on_event(status(State.WAITING, "no database"))
        errors.on_event(status(State.FAILED, "given up; token=ghp_s3cr3ts3cr3ts3cr3ts3cr3ts3cr3ts3cr3t"))
    kept = LastErrors().read()["weather"].error
    assert kept.startswith("given up")
    assert "s3cr3t" not in kept
    with LastErrors() as errors:
        errors.on_event(status(State.READY, "given up"))
    assert LastErrors().read() == {}
