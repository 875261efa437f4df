"""`add`, `remove`, `enable`, `disable` and `import`, as processes."""

import asyncio
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dovetail.client.auth.token_store import default_tokens
from dovetail.client.targets.secrets import PURPOSE, Secrets
from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.config.reader import read_config
from tests.cli.invoke import AtTerminal, Done, dovetail
from tests.host.hosting import PROGRAMS
from tests.support.keyring import ABSENT, desktop

SECRET = "ghp_" + "s3cr3t" * 5


class Place:
    """A user with a home, settings and a project of their own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.settings, self.project = folder / "home", folder / "settings", folder / "project"
        for each in (self.home, self.settings, self.project):
            each.mkdir()
        self.env = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.settings), "DOVETAIL_TOKEN_KEY": "k" * 40}
        self.own = self.settings / "dovetail" / "mcp.json"

    def run(self, *words: str, **env: str) -> Done:
        return dovetail(*words, cwd=self.project, **self.env, **env)

    def at_terminal(self, verb: str, *words: str) -> AtTerminal:
        """With the file named: a terminal begins in the folder of whoever runs the tests."""
        file = () if "--file" in words else ("--file", str(self.own))
        return AtTerminal(verb, *file, *words, stdout=True, columns=100, **self.env)

    def put(self, path: Path, content: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        return path

    def entry(self, key: str, file: Path | None = None) -> ServerEntry:
        [found] = [each for each in read_config(file or self.own, self.env).entries if each.key == key]
        return found

    def launch(self, key: str, file: Path | None = None) -> LaunchSpec:
        secrets = Secrets(default_tokens(PURPOSE, self.env), environ=self.env)
        return asyncio.run(secrets.fill(self.entry(key, file)))

    def written(self) -> str:
        """Everything that stands in a file in the clear."""
        files = [path for path in [*self.settings.rglob("*"), *self.project.rglob("*")] if path.is_file()]
        return "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class TestAdd:
    def test_a_command_word_by_word(self, place: Place) -> None:
        done = place.run("add", "fs", "--env", "MODE=${MODE:-fast}", "--", "npx", "-y", "fs", "--", "--file", "a b")
        assert (done.code, done.out, done.err) == (0, f"Added fs to {place.own}.\n", "")
        assert place.entry("fs").spec == LaunchSpec(
            kind="stdio", command=("npx", "-y", "fs", "--", "--file", "a b"), env={"MODE": "fast"}
        )

    def test_a_file_that_will_be_looked_for_elsewhere(self, place: Place) -> None:
        (place.project / "server.py").touch()
        done = place.run("add", "one", "--", "python", "server.py")
        assert done.code == 0 and "server.py is resolved in the folder where a host starts" in done.err
        assert place.run("add", "two", "--cwd", ".", "--", "python", "server.py").err == ""
        found = place.entry("two").spec
        assert found is not None and found.cwd == str(place.project)
        beside = place.put(place.project / "mcp.json", {"mcpServers": {}})
        assert place.run("add", "three", "--file", str(beside), "--", "python", "server.py").err == ""

    def test_a_url_with_a_secret_that_goes_to_the_keyring(self, place: Place) -> None:
        done = place.run("add", "web", "https://example.com/mcp", "--header", f"Authorization=Bearer {SECRET}")
        assert done.code == 0, done.err
        spec = place.entry("web").spec
        assert spec is not None and spec.headers == {"Authorization": "Bearer ${input:web-authorization}"}
        assert place.launch("web").headers == {"Authorization": f"Bearer {SECRET}"}
        assert SECRET not in place.written()

    @pytest.mark.parametrize(
        ("environ", "words"),
        [
            (
                {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"},
                "a file beside it (this system has no keyring",
            ),
            ({"DOVETAIL_KEYRING": "off"}, "a file beside it (DOVETAIL_KEYRING is off)"),
            ({"DOVETAIL_TOKEN_KEY": "k" * 40}, "with the key of DOVETAIL_TOKEN_KEY"),
        ],
    )
    def test_the_place_of_the_key_is_named_as_it_is(self, place: Place, environ: dict[str, str], words: str) -> None:
        own = {"HOME": str(place.home), "XDG_CONFIG_HOME": str(place.settings)}
        done = dovetail("add", "a", "--env", f"TOKEN={SECRET}", "--", "x", cwd=place.project, **own, **environ)
        assert done.code == 0 and words in done.out and "in the keyring" not in done.out

    def test_a_python_file_gets_the_command_that_install_writes(self, place: Place) -> None:
        (place.project / "server.py").touch()
        assert (place.run("add", "calc", "server.py").code, place.run("add", "other", "server.py:other").code) == (0, 0)
        prefix = (sys.executable, "-P", "-m", "dovetail.cli", "run")
        for key, file in (("calc", "server.py"), ("other", "server.py:other")):
            spec = place.entry(key).spec
            assert spec is not None and spec.command == (*prefix, str(place.project / file))

    def test_a_secret_that_is_to_stand_in_the_file(self, place: Place) -> None:
        assert place.run("add", "a", "--env", f"TOKEN={SECRET}", "--secrets", "file", "--", "x").code == 0
        spec = place.entry("a").spec
        assert spec is not None and spec.env == {"TOKEN": SECRET}

    def test_the_file_of_the_folder_goes_first_and_keeps_its_looks(self, place: Place) -> None:
        file = place.put(place.project / "mcp.json", '{\n\t// mine\n\t"servers": {}\n}\n')
        result = place.run("add", "a", "wss://h/", "--format", "json").result
        assert result == {"file": str(file), "key": "a", "problem": None, "stored": []}
        assert file.read_text() == (
            '{\n\t// mine\n\t"servers": {\n\t\t"a": {\n\t\t\t"type": "ws",\n\t\t\t"url": "wss://h/"\n\t\t}\n\t}\n}\n'
        )

    def test_adding_an_existing_server_is_an_error(self, place: Place) -> None:
        assert place.run("add", "a", "--", "x").code == 0
        done = place.run("add", "a", "--format", "json", "--", "y")
        assert (done.code, done.error["code"]) == (5, "exists")
        assert place.run("add", "a", "--replace", "--", "y").code == 0
        spec = place.entry("a").spec
        assert spec is not None and spec.command == ("y",)

    def test_a_missing_variable_is_reported(self, place: Place) -> None:
        done = place.run("add", "a", "--", "x", "${NOT_SET_ANYWHERE}")
        assert done.code == 0 and "NOT_SET_ANYWHERE is not set" in done.err

    @pytest.mark.parametrize(
        "words",
        [
            ["a"],
            ["a", "https://h/", "--", "x"],
            ["a", "--header", "A=b", "--", "x"],
            ["a", "https://h/", "--env", "A=b"],
            ["a", "--env", "A", "--", "x"],
            [" ", "https://h/"],
        ],
    )
    def test_invalid_arguments_of_add_are_usage_errors(self, place: Place, words: list[str]) -> None:
        done = place.run("add", *words)
        assert done.code == 1 and not place.own.exists()

    def test_a_broken_file_is_refused_and_left_alone(self, place: Place) -> None:
        file = place.put(place.project / "mcp.json", '{"servers": {\n')
        done = place.run("add", "a", "https://h/", "--format", "json")
        assert (done.code, done.error["code"]) == (1, "usage") and f"{file}:2" in done.error["message"]
        assert file.read_text() == '{"servers": {\n'

    def test_what_an_input_wants_is_asked_for_unseen(self, place: Place) -> None:
        with place.at_terminal("add", "web", "https://h/", "--header", "X-Key=${input:my key}") as terminal:
            terminal.until("my key: ")
            terminal.type(SECRET)
            code, rest = terminal.end()
        assert code == 0 and SECRET not in rest
        assert place.launch("web").headers == {"X-Key": SECRET}

    def test_a_person_may_leave_a_secret_in_the_file(self, place: Place) -> None:
        with place.at_terminal("add", "a", "--env", f"TOKEN={SECRET}", "--", "x") as terminal:
            assert "env.TOKEN" in terminal.until("apart from the file? [y]es, [n]o: ")
            terminal.type("n")
            assert terminal.end()[0] == 0
        assert place.launch("a").env == {"TOKEN": SECRET}


class TestSwitching:
    def test_a_server_is_disabled_enabled_and_removed(self, place: Place) -> None:
        place.run("add", "a", "--env", f"TOKEN={SECRET}", "--", "x")
        before = place.own.read_text()
        done = place.run("disable", "a", "--format", "json")
        assert done.result == {"file": str(place.own), "key": "a", "enabled": False}
        assert not place.entry("a").enabled
        assert place.run("enable", "a").out == f"Enabled a in {place.own}.\n"
        assert place.own.read_text() == before
        result = place.run("remove", "a", "--format", "json").result
        assert result == {"file": str(place.own), "key": "a", "forgotten": ["a-token"]}
        assert json.loads(place.own.read_text()) == {"mcpServers": {}, "inputs": []}
        assert not (place.settings / "dovetail" / PURPOSE).exists()

    @pytest.mark.parametrize("verb", ["remove", "enable", "disable"])
    def test_an_unknown_server_is_an_error_with_a_suggestion(self, place: Place, verb: str) -> None:
        place.run("add", "weather", "--", "x")
        done = place.run(verb, "wether", "--format", "json")
        assert (done.code, done.error["code"]) == (5, "not_found")
        assert "did you mean weather?" in done.error["message"]

    def test_enable_asks_for_what_is_missing(self, place: Place) -> None:
        inputs = [
            {"type": "promptString", "id": "token", "password": True},
            {"type": "pickString", "id": "region", "options": ["eu", "us"]},
        ]
        servers = {"a": {"command": "x", "env": {"T": "${input:token}", "R": "${input:region}"}}}
        file = place.put(place.project / ".vscode" / "mcp.json", {"inputs": inputs, "servers": servers})
        done = place.run("enable", "a", "--file", str(file), "--format", "json")
        assert json.loads(done.out)["result"]["missing"] == ["token", "region"]
        assert "DOVETAIL_INPUT_TOKEN" in done.err
        with place.at_terminal("enable", "a", "--file", str(file)) as terminal:
            terminal.answer("token: ", SECRET)
            terminal.answer("region: ", "mars")
            terminal.answer("region: ", "2")
            assert terminal.end()[0] == 0
        assert place.launch("a", file).env == {"T": SECRET, "R": "us"}
        assert place.run("enable", "a", "--file", str(file)).err == ""
        with place.at_terminal("enable", "a", "--file", str(file), "--ask") as terminal:
            terminal.answer("token: ", "other")
            terminal.answer("region: ", "eu")
            assert terminal.end()[0] == 0
        assert place.launch("a", file).env == {"T": "other", "R": "eu"}
        assert place.run("enable", "a", "--file", str(file), "--ask").code == 1


class TestImport:
    @pytest.fixture
    def sources(self, place: Place) -> Place:
        place.put(
            place.settings / "Claude" / "claude_desktop_config.json",
            {"mcpServers": {"gh": {"command": "npx", "args": ["-y", "gh"], "env": {"GITHUB_TOKEN": SECRET}}}},
        )
        place.put(place.home / ".claude.json", {"mcpServers": {"web": {"type": "http", "url": "https://h/mcp"}}})
        place.put(place.home / ".cursor" / "mcp.json", {"mcpServers": {"web": {"url": "https://other/"}}})
        place.put(
            place.project / ".vscode" / "mcp.json",
            '{"inputs": [{"id": "k", "type": "promptString"},], // ours\n'
            '"servers": {"db": {"command": "db", "args": ["${input:k}"],},},}',
        )
        return place

    def test_import_takes_the_servers_of_all_programs(self, sources: Place) -> None:
        result = sources.run("import", "--yes", "--format", "json").result
        assert (result["file"], result["imported"]) == (str(sources.own), ["db", "web", "gh"])
        assert [each["key"] for each in result["skipped"]] == ["web"]
        assert result["secrets"] == ["gh-github-token"]
        assert sources.launch("gh").env == {"GITHUB_TOKEN": SECRET}
        assert sources.entry("db").spec == LaunchSpec(
            kind="stdio", command=("db", "${input:k}"), cwd=str(sources.project)
        )
        assert SECRET not in sources.own.read_text()
        again = sources.run("import", "--yes", "--format", "json").result
        assert again["imported"] == []

    def test_import_takes_one_program_or_one_file(self, sources: Place) -> None:
        path = sources.put(sources.project / "x.json", {"mcpServers": {"x": {"command": "x"}}})
        result = sources.run("import", "cursor", str(path), "--yes", "--format", "json").result
        assert result["imported"] == ["web", "x"]

    def test_a_person_sees_it_all_and_may_refuse(self, sources: Place) -> None:
        with sources.at_terminal("import", "claude-desktop") as terminal:
            shown = terminal.until("[y]es, [n]o: ")
            terminal.type("n")
            code, _ = terminal.end()
        assert code == 5 and not sources.own.exists()
        assert "npx -y gh" in shown and "env: GITHUB_TOKEN" in shown and SECRET not in shown

    def test_a_person_agrees(self, sources: Place) -> None:
        with sources.at_terminal("import", "claude-desktop") as terminal:
            terminal.answer("[y]es, [n]o: ", "y")
            assert "gh-github-token: env.GITHUB_TOKEN" in terminal.until("apart from the file? [y]es, [n]o: ")
            terminal.type("")
            assert terminal.end()[0] == 0
        assert sources.launch("gh").env == {"GITHUB_TOKEN": SECRET}

    def test_import_without_a_terminal_needs_yes(self, sources: Place) -> None:
        done = sources.run("import", "--format", "json")
        assert (done.code, done.error["code"]) == (1, "usage") and "--yes" in done.error["message"]
        assert not sources.own.exists()

    def test_import_without_any_source_fails(self, place: Place) -> None:
        assert place.run("import", "--yes").code == 5
        assert place.run("import", "vscode", "--yes").code == 5
        assert place.run("import", "nothing.json", "--yes").code == 1


def test_every_change_is_recorded(place: Place) -> None:
    place.run("add", "a", "--env", f"TOKEN={SECRET}", "--secrets", "file", "--", "x")
    place.run("disable", "a")
    place.run("remove", "a")
    lines = [json.loads(line) for line in (place.settings / "dovetail" / "audit.jsonl").read_text().splitlines()]
    told = [(line["name"], line["server"], line["by"]) for line in lines if line["event"] == "config"]
    assert told == [("add", "a", "person"), ("disable", "a", "person"), ("remove", "a", "person")]
    assert not re.search(SECRET, json.dumps(lines))


class TestTogether:
    def test_programs_that_add_at_once_lose_nothing(self, place: Place) -> None:
        with ThreadPoolExecutor(6) as pool:
            done = list(pool.map(lambda number: place.run("add", f"s{number}", "--", "x"), range(6)))
        assert {each.code for each in done} == {0}
        assert len(read_config(place.own, place.env).entries) == 6

    def test_the_same_name_at_once_is_taken_once(self, place: Place) -> None:
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda number: place.run("add", "one", "--", f"x{number}"), range(4)))
        assert sorted(each.code == 0 for each in done) == [False, False, False, True]

    def test_a_server_in_place_of_another_leaves_nothing_of_it(self, place: Place) -> None:
        source = place.put(place.home / "x.json", {"mcpServers": {"a": {"command": "x", "env": {"TOKEN": SECRET}}}})
        for _ in range(3):
            assert place.run("import", str(source), "--yes", "--replace").code == 0
            assert len(json.loads(place.own.read_text())["inputs"]) == 1
            assert place.launch("a").env == {"TOKEN": SECRET}
        assert place.run("add", "a", "--replace", "--", "y").code == 0
        assert json.loads(place.own.read_text())["inputs"] == []
        before = place.own.read_text()
        assert "has another server of this name" in place.run("import", str(source), "--yes").out
        assert place.own.read_text() == before

    def test_where_else_a_server_stands_and_who_shares_it(self, place: Place) -> None:
        (place.project / ".git").mkdir()
        file = place.put(place.project / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}})
        assert f"it is in {file}: use --file {file}" in place.run("disable", "a").err
        assert "everyone who shares" in place.run("disable", "a", "--file", str(file)).err
        told = place.run("add", "b", "--file", str(file), "--env", f"TOKEN={SECRET}", "--", "x").err
        assert "belongs to cursor, which has no ${input:" in told

    def test_what_could_not_be_done_is_in_the_record(self, place: Place) -> None:
        place.put(place.project / "file", "")
        assert place.run("add", "a", "--file", "file/mcp.json", "--", "x", "--token", "hunter2").code != 0
        written = place.written()
        assert '"add"' in written and '"add failed"' in written and "hunter2" not in written


@pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))
def test_what_is_typed_goes_to_the_keyring_of_the_system_and_from_there_to_the_server(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    program = tmp_path / "hosting.py"
    program.write_text(
        "import asyncio, sys\n"
        "from dovetail import Host, Policy, Rule\n"
        "async def main():\n"
        "    async with Host.from_config(sys.argv[1], policy=Policy([Rule('allow', kind='*')])) as host:\n"
        "        print((await host.call('plain__environment', name='TOKEN')).text)\n"
        "asyncio.run(main())\n"
    )
    with desktop(tmp_path) as there:
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
        env = {name: there.environ[name] for name in names}
        words = (
            "--file",
            str(file),
            "--env",
            "TOKEN=${input:my-token}",
            "--",
            sys.executable,
            str(PROGRAMS / "plain.py"),
        )
        with AtTerminal("add", "plain", *words, stdout=True, columns=100, **env) as terminal:
            terminal.answer("my-token: ", SECRET)
            code, rest = terminal.end()
        assert code == 0 and SECRET not in rest
        run = [sys.executable, str(program), str(file)]
        done = subprocess.run(run, env=there.environ, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.returncode) == (f"{SECRET}\n", 0), done.stderr
        files = [each for each in tmp_path.rglob("*") if each.is_file()]
        assert any(each.name.endswith(".keyring") for each in files)
        assert not any(SECRET.encode() in each.read_bytes() for each in files)
        without = {name: value for name, value in there.environ.items() if name != "DBUS_SESSION_BUS_ADDRESS"}
        done = subprocess.run(run, env=without, capture_output=True, text=True, timeout=60)
        assert SECRET not in done.stdout and done.returncode != 0
