"""The program of a launch, and the files whose content is part of an approval."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from dovetail.config.launch_spec import LaunchSpec
from dovetail.policy.launch import launch_changes, redacted_spec, steers_programs
from dovetail.policy.launch_files import MAX_FILES, find_program, resolve_launch, safe_path
from dovetail.protocol.errors import LocalError

pytestmark = pytest.mark.attack("M11")

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = (
        "server.py",
        "dist/index.js",
        "run.sh",
        "app/__main__.py",
        "app/__init__.py",
        "tool/package.json",
        "tool/index.js",
        "sub/server.py",
        "node_modules/.bin/thing",
        "package.json",
        "pyproject.toml",
        "data.sqlite",
        "config.json",
        "preload.js",
        "script",
    )
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}")
    (tmp_path / "with_shebang").write_text("#!/bin/sh\n")
    (tmp_path / "server").write_text("#!/bin/sh\n")
    (tmp_path / "server").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("python3 server.py", ["server.py"]),
        ("python3 -u {project}/server.py --db-path data.sqlite", ["server.py"]),
        ("node dist/index.js config.json", ["dist/index.js"]),
        ("node --require=./preload.js dist/index.js", ["preload.js", "dist/index.js"]),
        ("node tool", ["tool/index.js", "tool/package.json"]),
        ("uv run --directory sub server.py", ["server.py", "sub/server.py", "pyproject.toml"]),
        ("uv run --directory=sub server.py", ["server.py", "sub/server.py", "pyproject.toml"]),
        ("python3 -m app", ["app/__main__.py", "app/__init__.py"]),
        ("python3 script", ["script"]),
        ("python3 -u script data.sqlite", ["script"]),
        ("python3 -m elsewhere data.sqlite", []),
        ("python3 -c pass data.sqlite", []),
        ("uv tool run elsewhere --db-path data.sqlite", ["pyproject.toml"]),
        ("uv run elsewhere data.sqlite", ["pyproject.toml"]),
        ("uvx elsewhere --db-path data.sqlite", []),
        ("node dist/index.js .", ["dist/index.js"]),
        ("npx thing@1.2", ["node_modules/.bin/thing"]),
        ("npx -y @scope/thing", ["node_modules/.bin/thing"]),
        ("npx -y @scope/other .", []),
        ("npm run start", ["package.json"]),
        ("./server --port 1", ["server"]),
        ("other with_shebang", ["with_shebang"]),
        ("other --db data.sqlite config.json script", []),
    ],
)
def test_the_files_with_code_that_a_command_names(project: Path, command: str, files: list[str]) -> None:
    words = tuple(word.replace("{project}", str(project)) for word in command.split())
    spec = LaunchSpec(kind="stdio", command=words, cwd=str(project))
    found = resolve_launch(spec, ENVIRON).files
    assert set(found) == {str(project / name) for name in files}
    assert all(sha256(Path(path).read_bytes()).hexdigest() == digest for path, digest in found.items())


def test_the_words_of_a_line_for_a_shell_are_looked_at(project: Path) -> None:
    spec = LaunchSpec(kind="stdio", command=("sh", "-c", "exec ./run.sh && python3 'server.py'"), cwd=str(project))
    assert set(resolve_launch(spec, ENVIRON).files) == {str(project / "run.sh"), str(project / "server.py")}


def test_files_that_steering_variables_name_are_looked_at(project: Path) -> None:
    spec = LaunchSpec(kind="stdio", command=("node",), env={"NODE_OPTIONS": "--require ./preload.js"}, cwd=str(project))
    assert set(resolve_launch(spec, ENVIRON).files) == {str(project / "preload.js")}


def test_the_program_is_the_first_of_an_absolute_path_element(project: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "mytool").write_text("#!/bin/sh\n")
    (second / "mytool").chmod(0o755)
    spec = LaunchSpec(kind="stdio", command=("mytool",), cwd=str(project))
    path = os.pathsep.join(["", ".", "first", str(first), str(second)])
    assert find_program(spec, {"PATH": path}) == str(second / "mytool"), "the first one is not executable"
    (first / "mytool").chmod(0o755)
    assert find_program(spec, {"PATH": path}) == str(first / "mytool")
    own = LaunchSpec(kind="stdio", command=("mytool",), env={"PATH": str(second)})
    assert find_program(own, {"PATH": path}) == str(second / "mytool")
    assert find_program(LaunchSpec(kind="stdio", command=("no-such-tool",)), {"PATH": path}) is None


@pytest.mark.parametrize(
    ("path", "safe"), [("/a::/b", "/a:/b"), (":/a", "/a"), (".:bin:/a:", "/a"), ("", os.defpath), (":", os.defpath)]
)
@pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
def test_empty_and_relative_elements_of_a_path_are_dropped(path: str, safe: str) -> None:
    assert safe_path(path) == safe


def test_a_command_that_names_too_many_files_is_refused(tmp_path: Path) -> None:
    names = [f"{n}.py" for n in range(MAX_FILES + 1)]
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(LocalError, match="more than 200 files"):
        resolve_launch(LaunchSpec(kind="stdio", command=("python3", *names), cwd=str(tmp_path)), ENVIRON)


def test_a_server_behind_a_url_has_the_digest_that_it_always_had() -> None:
    """Approvals that were stored before there were programs and files stay valid for it."""
    spec = LaunchSpec(kind="http", url="https://x.example/mcp", headers={"A": "1"})
    content = b'{"kind":"http","command":[],"env":{},"cwd":null,"url":"https://x.example/mcp","headers":{"A":"1"},"defaults":{}}'
    assert resolve_launch(spec, ENVIRON).digest == spec.digest == sha256(content).hexdigest()


def test_changes_are_told_with_the_file_and_both_digests(project: Path) -> None:
    spec = LaunchSpec(kind="stdio", command=("python3", "server.py"), env={"API_TOKEN": "a"}, cwd=str(project))
    before = resolve_launch(spec, ENVIRON)
    (project / "server.py").write_text("changed")
    after = resolve_launch(spec, ENVIRON)
    old, new = (sha256(text).hexdigest()[:16] for text in (b"content of server.py", b"changed"))
    assert launch_changes(redacted_spec(before), after) == [
        f"The content of {project}/server.py has changed: SHA-256 {old}… was approved, now SHA-256 {new}…."
    ]
    (unresolved,) = launch_changes(redacted_spec(spec), after)
    assert "did not cover the program and its files" in unresolved
    other = resolve_launch(
        LaunchSpec(kind="stdio", command=("node", "dist/index.js"), cwd=str(project)), {"PATH": "/x"}
    )
    assert launch_changes(redacted_spec(before), other) == [
        "The command has changed.",
        "The environment has changed.",
        f"The program is now missing; {before.program} was approved.",
        f"{project}/dist/index.js was added.",
        f"{project}/server.py was removed.",
    ]


@pytest.mark.attack("L4")
@pytest.mark.parametrize(
    "name",
    ["NODE_OPTIONS", "PYTHONSTARTUP", "LD_PRELOAD", "PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "Path", "UV_INDEX"],
)
def test_variables_that_decide_what_runs_are_known(name: str) -> None:
    assert steers_programs(name)


@pytest.mark.parametrize("name", ["API_TOKEN", "UV_PUBLISH_TOKEN", "NPM_CONFIG_AUTH_TOKEN", "HOME", "MODE"])
def test_variables_with_secrets_are_none_of_those(name: str) -> None:
    assert not steers_programs(name)
