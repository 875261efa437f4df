"""`dovetail migrate`: a patch on stdout, what is left on stderr, and files written with care."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.invoke import dovetail

BEFORE = """\
from fastmcp import Context, FastMCP

mcp = FastMCP("shop")


@mcp.tool(tags={"a"})
async def buy(ctx: Context) -> str:
    await ctx.info("buying")  # told to the client
    return "tea"
"""
AFTER = """\
from dovetail import Context, Server

mcp = Server("shop")


@mcp.tool()
async def buy(ctx: Context) -> str:
    await ctx.log.info("buying")  # told to the client
    return "tea"
"""
TAGS = "tags are gone; there are no tags; visible= of Server decides what a caller sees"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(BEFORE)
    return path


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60)


def committed(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "before")


def test_without_options_a_patch_is_printed_and_nothing_is_written(server: Path) -> None:
    done = dovetail("migrate", "server.py", cwd=server.parent)
    assert done.code == 0
    assert server.read_text() == BEFORE
    assert done.err.splitlines() == [
        f"server.py:6: {TAGS}",
        "1 file to change (+4 -4 lines), 1 place to look at.",
    ]
    subprocess.run(["git", "apply", "-"], input=done.raw, cwd=server.parent, check=True, timeout=60)
    assert server.read_text() == AFTER


def test_a_file_outside_of_git_is_kept_as_a_copy(server: Path) -> None:
    done = dovetail(
        "migrate", "--write", "server.py", cwd=server.parent, GIT_CEILING_DIRECTORIES=str(server.parents[1])
    )
    assert done.code == 0
    assert server.read_text() == AFTER
    assert (server.parent / "server.py.orig").read_text() == BEFORE
    assert "server.py.orig has the old text." in done.err


def test_a_committed_file_is_changed_without_a_copy(server: Path) -> None:
    committed(server.parent)
    assert dovetail("migrate", "--write", ".", cwd=server.parent).code == 0
    assert server.read_text() == AFTER
    assert not (server.parent / "server.py.orig").exists()


def test_a_file_with_uncommitted_changes_is_refused_unless_forced(server: Path) -> None:
    committed(server.parent)
    server.write_text(BEFORE + "# more\n")
    done = dovetail("migrate", "--write", "server.py", cwd=server.parent)
    assert done.code == 1
    assert done.err == "dovetail: server.py: there are uncommitted changes; commit them first, or say --force\n"
    assert server.read_text() == BEFORE + "# more\n"
    assert dovetail("migrate", "--write", "--force", "server.py", cwd=server.parent).code == 0
    assert server.read_text() == AFTER + "# more\n"


def test_a_second_run_changes_nothing(server: Path) -> None:
    dovetail("migrate", "--write", "server.py", cwd=server.parent)
    done = dovetail("migrate", "--check", "server.py", cwd=server.parent)
    assert (done.code, done.out) == (0, "")
    assert done.err == "0 files to change (+0 -0 lines), 0 places to look at.\n"


def test_check_fails_while_something_is_to_be_done(server: Path) -> None:
    done = dovetail("migrate", "--check", "server.py", cwd=server.parent)
    assert (done.code, done.out) == (5, "")
    assert server.read_text() == BEFORE


def test_files_of_a_folder_know_the_servers_of_each_other(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "app.py").write_text("from fastmcp import FastMCP\n\nmcp = FastMCP('shop')\n")
    (package / "main.py").write_text("from shop.app import mcp\n\nmcp.run('http', stateless_http=True)\n")
    (package / "tools.py").write_text("from .app import mcp\n\n\n@mcp.tool('n')\ndef f() -> None: ...\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("from fastmcp import FastMCP\n")
    done = dovetail("migrate", "--write", ".", cwd=tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert done.err.splitlines()[-1] == "3 files changed (+4 -4 lines), 0 places to look at."
    assert "sessions=False" in (package / "main.py").read_text()
    assert "@mcp.tool(name='n')" in (package / "tools.py").read_text()


def test_places_in_a_written_file_have_its_own_line_numbers(server: Path) -> None:
    server.write_text("from fastmcp import FastMCP\nfrom fastmcp import Context\n\nmcp = FastMCP('s')\nmcp.settings\n")
    words = ("server.py", "--format", "json")
    for line, options in ((5, ()), (4, ("--write",))):
        [file] = dovetail("migrate", *words, *options, cwd=server.parent).result["files"]
        assert [note["line"] for note in file["notes"]] == [line]


def test_a_script_reads_json(server: Path) -> None:
    [file] = dovetail("migrate", "server.py", "--format", "json", cwd=server.parent).result["files"]
    assert (file["path"], file["changed"], file["added"]) == ("server.py", True, 4)
    assert [note["line"] for note in file["notes"]] == [6]


def test_a_file_that_is_no_python_is_named_with_its_line(server: Path) -> None:
    server.write_text("from fastmcp import FastMCP\nmcp = FastMCP(\n")
    done = dovetail("migrate", "server.py", cwd=server.parent)
    assert done.code == 5
    assert done.err.splitlines()[0] == "server.py: it is no valid Python in line 2: '(' was never closed"


@pytest.mark.parametrize(
    ("path", "message"),
    [("nowhere.py", "There is no file or folder nowhere.py"), ("empty", "There are no Python files in empty")],
)
def test_a_wrong_path_is_said_in_one_line(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    done = dovetail("migrate", path, cwd=tmp_path)
    assert (done.code, done.err) == (1, f"dovetail: {message}\n")


def test_the_encoding_and_the_byte_order_mark_of_a_file_are_kept(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# größer\nfrom fastmcp import FastMCP\nmcp = FastMCP('ü')\n"
    (tmp_path / "latin.py").write_bytes(text.encode("latin-1"))
    (tmp_path / "mark.py").write_bytes(b"\xef\xbb\xbffrom fastmcp import FastMCP\r\nmcp = FastMCP('\xc3\xbc')\r\n")
    assert dovetail("migrate", "--write", ".", cwd=tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent)).code == 0
    assert "mcp = Server('ü')" in (tmp_path / "latin.py").read_bytes().decode("latin-1")
    assert (tmp_path / "mark.py").read_bytes() == (
        b"\xef\xbb\xbffrom dovetail import Server\r\nmcp = Server('\xc3\xbc')\r\n"
    )
