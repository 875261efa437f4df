"""`dovetail install` and `uninstall`: each program's own file, key and form, read as the program reads it."""

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.config.formats.yaml_text import parse_yaml
from dovetail.config.jsonc import parse, plain
from dovetail.config.reader import read_config
from tests.cli.invoke import dovetail

SERVER = """
from dovetail import Server

server = Server("my inn")
"""

JSONC = """{
  // my settings
  "theme": "dark", // at night
  "%s": {
    "old": {"command": "old", "args": []}, // keep me
  },
}
"""

TOML = """# my settings
model = "o9"

[mcp_servers.old] # keep me
command = "old"

# the end
[other]
x = 1"""

YAML = """# my settings
extensions:
  # keep me
  old:
    type: stdio
    cmd: old

GOOSE_MODEL: x # why
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def inn(tmp_path: Path) -> Path:
    folder = tmp_path / "my inn"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    return folder


def run(home: Path, cwd: Path, *words: str):
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "CODEX_HOME": "", "CLAUDE_CONFIG_DIR": ""}
    return dovetail(*words, cwd=cwd, **environ)


def command(inn: Path) -> tuple[str, list[str]]:
    """What every program is to run: absolute paths of this interpreter and of the file."""
    return sys.executable, ["-P", "-m", "dovetail.cli", "run", str(inn / "server.py"), "--", "--db", "x"]


def usual(inn: Path) -> dict[str, Any]:
    program, arguments = command(inn)
    return {"command": program, "args": arguments, "env": {"MODE": "fast"}}


def goose(inn: Path) -> dict[str, Any]:
    program, arguments = command(inn)
    head = {"enabled": True, "name": "my inn", "description": "", "type": "stdio"}
    return {**head, "cmd": program, "args": arguments, "envs": {"MODE": "fast"}, "timeout": 300}


def opencode(inn: Path) -> dict[str, Any]:
    program, arguments = command(inn)
    return {"type": "local", "command": [program, *arguments], "environment": {"MODE": "fast"}, "enabled": True}


PROGRAMS: list[tuple[str, str, str, Callable[[Path], dict[str, Any]]]] = [
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers", usual),
    ("claude-code", ".claude.json", "mcpServers", lambda inn: {"type": "stdio", **usual(inn)}),
    ("cursor", ".cursor/mcp.json", "mcpServers", usual),
    ("vscode", ".config/Code/User/mcp.json", "servers", lambda inn: {"type": "stdio", **usual(inn)}),
    ("codex", ".codex/config.toml", "mcp_servers", usual),
    ("gemini", ".gemini/settings.json", "mcpServers", usual),
    ("goose", ".config/goose/config.yaml", "extensions", goose),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers", usual),
    ("zed", ".config/zed/settings.json", "context_servers", lambda inn: {"source": "custom", **usual(inn)}),
    ("lm-studio", ".lmstudio/mcp.json", "mcpServers", usual),
    (
        "cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "mcpServers",
        lambda inn: {**usual(inn), "disabled": False},
    ),
    ("amazon-q", ".aws/amazonq/mcp.json", "mcpServers", usual),
    ("kiro", ".kiro/settings/mcp.json", "mcpServers", usual),
    ("opencode", ".config/opencode/opencode.json", "mcp", opencode),
    ("junie", ".junie/mcp/mcp.json", "mcpServers", usual),
]


def load(file: Path) -> dict[str, Any]:
    """The file as its program reads it."""
    if file.suffix == ".toml":
        return tomllib.loads(file.read_text())
    return plain(parse_yaml(file.read_text()) if file.suffix == ".yaml" else parse(file.read_text()))


def existing(file: Path, key: str) -> bytes:
    """A file with comments and a server that a user has there already."""
    if file.suffix == ".toml":
        text = (
            '# my settings\nmodel = "o9"\n\n[mcp_servers.old] # keep me\ncommand = "old"\n\n# the end\n[other]\nx = 1'
        )
    elif file.suffix == ".yaml":
        text = (
            "# my settings\nextensions:\n  # keep me\n  old:\n    type: stdio\n    cmd: old\n\nGOOSE_MODEL: x # why\n"
        )
    else:
        text = JSONC % key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file.read_bytes()


@pytest.mark.parametrize(("program", "path", "key", "entry"), PROGRAMS, ids=[each[0] for each in PROGRAMS])
def test_a_program_reads_the_server_and_uninstall_leaves_the_file_as_it_was(
    program: str, path: str, key: str, entry: Callable[[Path], dict[str, Any]], home: Path, inn: Path
):
    file = home / path
    before = existing(file, key)
    words = ["install", "server.py", "--into", program, "--env", "MODE=fast", "--yes"]
    done = run(home, inn, *words, "--format", "json", "--", "--db", "x").result
    assert done["results"][0]["file"] == str(file)
    assert Path(done["results"][0]["backup"]).read_bytes() == before
    after = load(file)
    assert after[key]["my inn"] == entry(inn)
    assert "keep me" in file.read_text()
    found = next(each for each in read_config(file, {"HOME": str(home)}).entries if each.key == "my inn")
    assert found.spec is not None
    assert found.spec.command == (sys.executable, *command(inn)[1])
    assert found.spec.env == {"MODE": "fast"}
    assert run(home, inn, "uninstall", "my inn", "--from", program, "--yes").code == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize("program", ["claude-desktop", "codex", "goose"])
def test_a_file_that_was_not_there_is_gone_again(program: str, home: Path, inn: Path):
    path = next(home / each[1] for each in PROGRAMS if each[0] == program)
    run(home, inn, "install", "server.py", "--into", program, "--name", "inn", "--yes")
    assert load(path)
    run(home, inn, "uninstall", "inn", "--from", program, "--yes")
    assert not path.exists()


@pytest.mark.parametrize("program", ["cursor", "codex", "goose"])
def test_a_server_is_taken_out_of_a_file_that_has_changed_since(program: str, home: Path, inn: Path):
    _, path, key, _ = next(each for each in PROGRAMS if each[0] == program)
    file = home / path
    existing(file, key)
    run(home, inn, "install", "server.py", "--into", program, "--name", "a", "--yes")
    run(home, inn, "install", "server.py", "--into", program, "--name", "b", "--yes")
    run(home, inn, "uninstall", "a", "--from", program, "--yes")
    assert list(load(file)[key]) == ["old", "b"]
    assert "keep me" in file.read_text()


def test_goose_gets_a_block_in_its_own_indentation(home: Path, inn: Path):
    file = home / ".config/goose/config.yaml"
    existing(file, "extensions")
    run(home, inn, "install", "npx -y inn", "--into", "goose", "--name", "inn", "--env", "A=yes", "--yes")
    program = load(file)["extensions"]["inn"]["cmd"]
    added = f"""  inn:
    enabled: true
    name: inn
    description: ""
    type: stdio
    cmd: {program}
    args:
    - "-y"
    - inn
    envs:
      A: "yes"
    timeout: 300
"""
    assert file.read_text() == YAML.replace("    cmd: old\n", "    cmd: old\n" + added)


@pytest.mark.parametrize(
    ("program", "path", "text"),
    [("codex", ".codex/config.toml", TOML), ("goose", ".config/goose/config.yaml", YAML)],
)
def test_a_file_of_another_program_is_read_without_warnings(
    home: Path, inn: Path, program: str, path: str, text: str
) -> None:
    file = home / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    run(home, inn, "install", "server.py", "--into", program, "--yes")
    shown = run(home, inn, "servers", "--file", str(file))
    assert "old" in shown.out and shown.err == ""


def test_codex_gets_a_table_at_the_end(home: Path, inn: Path):
    file = home / ".codex/config.toml"
    existing(file, "mcp_servers")
    run(home, inn, "install", "https://inn.com/mcp", "--into", "codex", "--name", "my inn", "--yes")
    assert file.read_text() == TOML + '\n\n[mcp_servers."my inn"]\nurl = "https://inn.com/mcp"\n'


def test_a_dry_run_shows_the_change_without_secrets_and_makes_none(home: Path, inn: Path):
    words = ["install", "server.py", "--into", "cursor", "--env", "API_KEY=s3cret-value"]
    shown = run(home, inn, *words, "--dry-run")
    assert '+    "my inn": {' in shown.out
    assert "s3cret-value" not in shown.out
    assert not (home / ".cursor").exists()
    asked = run(home, inn, *words)
    assert "there is no terminal to ask at" in asked.err
    assert not (home / ".cursor").exists()


def test_a_malformed_file_is_refused(home: Path, inn: Path):
    for path, text in ((".cursor/mcp.json", "{"), (".codex/config.toml", "a = "), (".config/goose/config.yaml", "")):
        file = home / path
        file.parent.mkdir(parents=True)
        file.write_text(text or "extensions:\n  a: &x\n    b: 1\n")
    for program in ("cursor", "codex", "goose"):
        assert run(home, inn, "install", "server.py", "--into", program, "--yes").code == 1
    assert (home / ".cursor/mcp.json").read_text() == "{"


def test_a_name_that_is_taken_needs_replace(home: Path, inn: Path):
    words = ["install", "server.py", "--into", "cursor", "--yes"]
    run(home, inn, *words)
    assert "Cursor has my inn already" in run(home, inn, *words).out
    again = run(home, inn, *words, "--env", "A=1")
    assert "already; pass --replace, or another --name" in again.err
    assert run(home, inn, *words, "--env", "A=1", "--replace").code == 0
    assert load(home / ".cursor/mcp.json")["mcpServers"]["my inn"]["env"] == {"A": "1"}


@pytest.mark.parametrize(
    ("program", "path", "entry"),
    [
        ("vscode", ".vscode/mcp.json", {"type": "http", "url": "https://mcp.inn.com/mcp", "headers": {"X-A": "b"}}),
        ("gemini", ".gemini/settings.json", {"httpUrl": "https://mcp.inn.com/mcp", "headers": {"X-A": "b"}}),
        ("codex", ".codex/config.toml", {"url": "https://mcp.inn.com/mcp", "http_headers": {"X-A": "b"}}),
        ("zed", ".zed/settings.json", {"url": "https://mcp.inn.com/mcp", "headers": {"X-A": "b"}}),
    ],
)
def test_a_url_goes_into_the_file_of_a_project(program: str, path: str, entry: dict[str, Any], home: Path, inn: Path):
    words = ["install", "https://mcp.inn.com/mcp", "--into", program, "--project", "--header", "X-A=b", "--yes"]
    assert run(home, inn, *words).code == 0
    (servers,) = load(inn / path).values()
    assert servers == {"inn": entry}
    found = read_config(inn / path, {"HOME": str(home)}).entries[0]
    assert found.spec is not None
    assert (found.spec.url, found.spec.headers) == ("https://mcp.inn.com/mcp", {"X-A": "b"})


def test_a_program_without_urls_says_so(home: Path, inn: Path):
    done = run(home, inn, "install", "https://inn.com/mcp", "--into", "claude-desktop", "--yes")
    assert "Settings, Connectors" in done.err


def test_the_programs_are_listed_with_their_files(home: Path, inn: Path):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{}")
    listed = run(home, inn, "install", "--list", "--format", "json").result
    there = {each["program"]: each["exists"] for each in listed}
    assert there["cursor"] is True
    assert there["zed"] is False
    assert set(there) == {each[0] for each in PROGRAMS}


def test_an_unknown_name_is_an_error_with_the_names_that_are_there(home: Path, inn: Path):
    run(home, inn, "install", "server.py", "--into", "cursor", "--name", "weather", "--yes")
    assert "did you mean weather?" in run(home, inn, "uninstall", "wether", "--from", "cursor", "--yes").err


def test_add_writes_the_key_that_vs_code_reads(home: Path, inn: Path):
    assert run(home, inn, "add", "x", "--file", ".vscode/mcp.json", "--", "prog").code == 0
    assert list(json.loads((inn / ".vscode/mcp.json").read_text())) == ["servers"]
