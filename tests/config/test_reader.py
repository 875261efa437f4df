"""Reading the files that people have."""

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.config.document import BadConfig
from dovetail.config.entries import Origin, ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.config.reader import Config, read_config, read_configs


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / ".git").mkdir(parents=True)
    return path


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


def entries(config: Config) -> dict[str, ServerEntry]:
    return {entry.key: entry for entry in config.entries}


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), **more}


class TestDialects:
    def test_claude_desktop(self, home: Path) -> None:
        file = put(
            home / ".config/Claude/claude_desktop_config.json",
            {
                "globalShortcut": "",
                "mcpServers": {"fs": {"command": "npx", "args": ["-y", "fs", "/"], "env": {"A": "1"}}},
            },
        )
        config = read_config(file, environ(home))
        [entry] = config.entries
        assert entry.spec == LaunchSpec(kind="stdio", command=("npx", "-y", "fs", "/"), env={"A": "1"})
        assert (entry.problem, entry.enabled, config.warnings) == (None, True, ())
        assert entry.origin == Origin(str(file), 4)

    def test_a_project_file_runs_in_its_folder(self, home: Path, project: Path) -> None:
        file = put(project / ".mcp.json", {"mcpServers": {"a": {"type": "stdio", "command": "./a"}}})
        [entry] = read_config(file, environ(home)).entries
        assert entry.spec == LaunchSpec(kind="stdio", command=("./a",), cwd=str(project))
        [same] = read_config(file, environ(home), project / "deep").entries
        assert same.spec == entry.spec

    def test_cursor(self, home: Path, project: Path) -> None:
        servers = {"mcpServers": {"a": {"command": "${workspaceFolder}/a", "args": ["${userHome}"]}}}
        [entry] = read_config(put(project / ".cursor/mcp.json", servers), environ(home)).entries
        assert entry.spec is not None
        assert (entry.spec.command, entry.spec.cwd) == ((f"{project}/a", str(home)), str(project))
        [own] = read_config(put(home / ".cursor/mcp.json", servers), environ(home), project).entries
        assert own.spec is not None
        assert (own.spec.command[0], own.spec.cwd) == (f"{project}/a", None)

    def test_vscode(self, home: Path, project: Path) -> None:
        put(project / "local.env", "TOKEN=from the file\nB='2'\n")
        file = put(
            project / ".vscode/mcp.json",
            """{
  // what we use
  "inputs": [
    {"type": "promptString", "id": "key", "description": "API key", "password": true},
    {"type": "pickString", "id": "region", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"},
    {"type": "command", "id": "cmd", "command": "x.y"},
  ],
  "servers": {
    "one": {
      "type": "stdio", "command": "uvx", "args": ["one", "--region=${input:region}"],
      "envFile": "${workspaceFolder}/local.env",
      "env": {"KEY": "${input:key}", "B": 3, "H": "${env:HOME}", "N": "${workspaceFolderBasename}"},
      "cwd": "sub", /* here */
    },
    "two": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${input:key}"}},
    "three": {"command": "x", "args": ["${input:cmd}"]},
    "four": {"command": "x", "args": ["${input:nobody}"]},
  },
}""",
        )
        config = read_config(file, environ(home))
        found = entries(config)
        assert found["one"].spec == LaunchSpec(
            kind="stdio",
            command=("uvx", "one", "--region=${input:region}"),
            env={"TOKEN": "from the file", "B": "3", "KEY": "${input:key}", "H": str(home), "N": "project"},
            cwd=str(project / "sub"),
            defaults={"region": "eu"},
        )
        assert [each.id for each in found["one"].inputs] == ["region", "key"]
        region, key = found["one"].inputs
        assert (region.options, region.default, region.secret) == (("eu", "us"), "eu", False)
        assert (key.secret, key.description, key.origin.line) == (True, "API key", 4)
        assert found["one"].origins["env.TOKEN"] == Origin(str(project / "local.env"), 1)
        assert found["one"].origins["env.KEY"] == Origin(str(file), 12)
        assert found["two"].spec is not None and found["two"].spec.kind == "http"
        assert found["three"].spec is None and "only VS Code can run" in (found["three"].problem or "")
        assert found["four"].problem == f"{file}:17: the file has no input 'nobody' among its inputs"
        assert config.files == (str(file), str(project / "local.env"))

    def test_vscode_settings(self, home: Path) -> None:
        file = put(home / "settings.json", {"editor": 1, "mcp": {"inputs": [], "servers": {"a": {"command": "x"}}}})
        assert [entry.key for entry in read_config(file, environ(home)).entries] == ["a"]

    def test_claude_code_local_before_project_before_user(self, home: Path, project: Path) -> None:
        def server(name: str) -> dict[str, str]:
            return {"command": name}

        own = put(
            home / ".claude.json",
            {
                "numStartups": 3,
                "mcpServers": {"a": server("user"), "b": server("user"), "c": server("user")},
                "projects": {
                    str(project): {"mcpServers": {"a": server("local")}, "disabledMcpjsonServers": ["d"]},
                    "/else/where": {"mcpServers": {"e": server("other")}},
                },
            },
        )
        theirs = put(project / ".mcp.json", {"mcpServers": {k: server("project") for k in "abd"}})
        deep = project / "src" / "deep"
        deep.mkdir(parents=True)
        config = read_configs([theirs, own], environ(home), deep)
        found = {key: entry.spec.command[0] for key, entry in entries(config).items() if entry.spec}
        assert found == {"a": "local", "b": "project", "c": "user", "d": "project"}
        assert [key for key, entry in entries(config).items() if not entry.enabled] == ["d"]
        [told] = [text for text in config.warnings if "'b'" in text]
        assert told == f"{own}:7: the server 'b' stands in {theirs}:6 too, and that one counts"
        assert sum("that one counts" in text for text in config.warnings) == 3

    def test_a_file_without_servers(self, home: Path) -> None:
        config = read_config(put(home / "x.json", {"theme": "dark"}), environ(home))
        assert config.entries == () and "names no servers" in config.warnings[0]


class TestTypes:
    @pytest.mark.parametrize(
        ("server", "kind"),
        [
            ({"command": "x"}, "stdio"),
            ({"url": "https://h/"}, "http"),
            ({"url": "WSS://h/"}, "ws"),
            ({"type": "sse", "url": "http://h/"}, "sse"),
            ({"type": "streamable-http", "url": "http://h/"}, "http"),
            ({"type": "streamableHttp", "url": "http://h/"}, "http"),
            ({"type": "ws", "url": "ws://h/"}, "ws"),
            ({"type": "http", "url": "${input:where}"}, "http"),
            ({"type": "stdio", "command": "x", "url": "http://h/"}, "stdio"),
        ],
    )
    def test_found_out(self, home: Path, server: dict[str, Any], kind: str) -> None:
        content = {"inputs": [{"type": "promptString", "id": "where"}], "servers": {"a": server}}
        [entry] = read_config(put(home / "x.json", content), environ(home)).entries
        assert entry.problem is None
        assert entry.spec is not None and entry.spec.kind == kind

    @pytest.mark.parametrize(
        ("server", "words"),
        [
            ({}, "neither a command nor a url"),
            ({"command": "x", "url": "http://h/"}, "both a command and a url"),
            ({"type": "carrier-pigeon", "command": "x"}, "no such type"),
            ({"type": 3, "command": "x"}, "no such type"),
            ({"type": "http", "command": "x"}, "is to have a url"),
            ({"type": "stdio", "url": "http://h/"}, "is to have a command"),
            ({"url": "ftp://h/"}, "http:// or https://"),
            ({"url": "http://"}, "name a host"),
            ({"url": "http://[h/"}, "name a host"),
            ({"type": "ws", "url": "http://h/"}, "ws:// or wss://"),
            ({"command": "  "}, "is empty"),
            ({"command": ["x"]}, "command is to be a text"),
            ({"command": "x", "args": "y"}, "list of texts"),
            ({"command": "x", "args": [True]}, "args.0 is to be a text"),
            ({"command": "x", "args": ["\0"]}, "NUL"),
            ({"command": "x", "env": ["A=1"]}, "object of texts"),
            ({"command": "x", "env": {"A": False}}, "env.A is to be a text"),
            ({"command": "x", "disabled": "no"}, "true or false"),
            ({"command": "x", "envFile": "nowhere.env"}, "cannot be read"),
            ({"command": "x", "envFile": "${input:a}"}, "no input"),
            ([], "is to be an object"),
        ],
    )
    def test_what_is_wrong_with_one_is_no_matter_to_the_others(self, home: Path, server: Any, words: str) -> None:
        file = put(home / "x.json", {"mcpServers": {"bad": server, "good": {"command": "x"}}})
        found = entries(read_config(file, environ(home)))
        assert found["good"].problem is None and found["good"].spec is not None
        assert found["bad"].spec is None
        assert words in (found["bad"].problem or "") and f"{file}:" in (found["bad"].problem or "")

    def test_a_bad_line_of_an_env_file_is_named(self, home: Path) -> None:
        env = put(home / "x.env", "A=1\nwhat\n")
        [entry] = read_config(
            put(home / "x.json", {"servers": {"a": {"command": "x", "envFile": str(env)}}}), environ(home)
        ).entries
        assert f"{env}:2: this line is not of the form" in (entry.problem or "")

    def test_disabled(self, home: Path) -> None:
        [entry] = read_config(
            put(home / "x.json", {"servers": {"a": {"command": "x", "disabled": True}}}), environ(home)
        ).entries
        assert not entry.enabled and entry.spec is not None


class TestVariables:
    def test_an_unset_one_names_itself_and_its_line(self, home: Path) -> None:
        file = put(
            home / "x.json",
            '{"mcpServers": {\n"a": {"command": "x",\n "env": {\n"K": "${NOT_SET}"}},\n"b": {"command": "${SET}"}}}',
        )
        found = entries(read_config(file, environ(home, SET="y")))
        assert found["a"].spec is None
        assert (found["a"].problem or "").startswith(f"{file}:4: env.K: the environment variable NOT_SET is not set")
        assert found["b"].spec is not None and found["b"].spec.command == ("y",)

    def test_defaults(self, home: Path) -> None:
        file = put(home / "x.json", {"servers": {"a": {"url": "${BASE:-https://h}/mcp"}}})
        [entry] = read_config(file, environ(home)).entries
        assert entry.spec is not None and entry.spec.url == "https://h/mcp"


class TestWarnings:
    def test_a_misspelt_key_names_file_line_and_what_was_meant(self, home: Path) -> None:
        file = put(
            home / "x.json",
            '{"mcpServers": {"a": {"command": "x",\n"arguments": [], "timeout": 3, "colour": 1}}, "input": []}',
        )
        assert read_config(file, environ(home)).warnings == (
            f"{file}:2: 'input' is no key of this file; did you mean 'inputs'?",
            f"{file}:2: 'arguments' is no key of a server; did you mean 'args'?",
        )

    def test_a_misspelt_table(self, home: Path) -> None:
        [text] = read_config(put(home / "x.json", {"mcpservers": {}}), environ(home)).warnings
        assert "did you mean 'mcpServers'?" in text

    def test_a_command_with_blanks(self, home: Path) -> None:
        [text] = read_config(put(home / "x.json", {"servers": {"a": {"command": "npx -y x"}}}), environ(home)).warnings
        assert "no shell splits it" in text

    def test_inputs_that_are_none(self, home: Path) -> None:
        content = {"inputs": [3, {"type": "promptString"}, {"typ": "x", "id": "a"}], "servers": {}}
        config = read_config(put(home / "x.json", content), environ(home))
        assert len(config.warnings) == 3 and config.inputs == ()
        assert "did you mean 'type'?" in config.warnings[2]

    @pytest.mark.parametrize(
        ("inputs", "words"),
        [
            ([{"type": "promptString", "id": "k"}] * 2, "twice"),
            ([{"id": "k"}], "no type"),
            ([{"id": "k", "type": "pickString", "options": []}], "no options"),
            ({}, "has no input"),
        ],
    )
    def test_a_bad_input_hurts_who_wants_it(self, home: Path, inputs: Any, words: str) -> None:
        content = {"inputs": inputs, "servers": {"a": {"command": "${input:k}"}, "b": {"command": "x"}}}
        found = entries(read_config(put(home / "x.json", content), environ(home)))
        assert words in (found["a"].problem or "") and found["b"].problem is None


class TestBadFiles:
    @pytest.mark.parametrize(
        ("content", "line", "words"),
        [
            ('{"mcpServers": {\n"a": {},\n"a": {}}}', 3, "'a' stands here again"),
            ('{"mcpServers": {\n', 2, "missing"),
            ('\n["a"]', 2, "is an object"),
            ('{\n"mcpServers": []}', 2, "are to be an object"),
        ],
    )
    def test_a_file_that_cannot_be_used_says_where(self, home: Path, content: str, line: int, words: str) -> None:
        file = put(home / "x.json", content)
        with pytest.raises(BadConfig, match=words) as caught:
            read_config(file, environ(home))
        assert caught.value.origin == Origin(str(file), line)
        assert str(caught.value).startswith(f"{file}:{line}: ")

    def test_a_missing_file_and_a_file_without_text_are_errors(self, home: Path) -> None:
        with pytest.raises(BadConfig, match="cannot be read: No such file"):
            read_config(home / "nothing.json", environ(home))
        (home / "x.json").write_bytes(b'{\n"a": "\xff"}')
        with pytest.raises(BadConfig, match=r"x\.json:2: the file is not UTF-8"):
            read_config(home / "x.json", environ(home))

    @pytest.mark.parametrize("place", ["/dev/zero", "/dev/tty", "/"])
    def test_what_is_no_file_is_not_waited_for(self, home: Path, place: str) -> None:
        link = home / "mcp.json"
        link.symlink_to(place)
        with pytest.raises(BadConfig, match="cannot be read"):
            read_config(link, {})

    def test_a_mark_before_the_text_is_no_matter(self, home: Path) -> None:
        file = put(home / "x.json", '\ufeff{"servers": {"a": {"command": "x"}}}')
        assert read_config(file, environ(home)).entries[0].problem is None


def test_a_null_unsets_what_the_env_file_sets(home: Path) -> None:
    put(home / "x.env", "A=1\nB=2\n")
    server = {"type": "local", "command": "x", "envFile": str(home / "x.env"), "env": {"A": None, "C": 3}}
    [entry] = read_config(put(home / "x.json", {"servers": {"a": server}}), environ(home)).entries
    assert entry.problem is None and entry.spec is not None and entry.spec.env == {"B": "2", "C": "3"}


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"command": "x", "sandboxEnabled": True}, "sandboxEnabled: there is no sandbox here"),
        ({"command": "x", "sandboxEnabled": False}, None),
        ({"url": "https://h/", "headersHelper": "/bin/x"}, "no program is run for headers"),
        ({"url": "https://h/", "headers": {"Authorization": "Bearer $TOKEN"}}, "${TOKEN} would be filled in"),
        ({"command": "sh", "args": ["-c", "echo $HOME; x"]}, None),
        ({"command": "x", "args": ["--key", "${input:key}"]}, "can see a command line, and 'key'"),
        ({"command": "x", "args": ["${input:place}"]}, None),
        ({"command": "x", "env": {"K": "${input:key}"}}, None),
        ({"serverUrl": "https://h/"}, "did you mean 'url'?"),
    ],
)
def test_what_a_person_may_rely_on_in_vain(home: Path, server: Any, words: str | None) -> None:
    inputs = [{"type": "promptString", "id": "key", "password": True}, {"type": "promptString", "id": "place"}]
    config = read_config(put(home / "x.json", {"inputs": inputs, "servers": {"a": server}}), environ(home))
    assert [words in text for text in config.warnings if words] == ([True] if words else [])
    assert words or not config.warnings


def test_a_project_that_is_reached_by_a_link(home: Path, project: Path) -> None:
    own = put(home / ".claude.json", {"projects": {str(project): {"mcpServers": {"a": {"command": "x"}}}}})
    link = home / "link"
    link.symlink_to(project)
    assert [entry.key for entry in read_config(own, environ(home), link).entries] == ["a"]
