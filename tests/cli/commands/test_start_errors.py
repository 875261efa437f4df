"""A server that does not start is one block of a few lines: its whole output is here."""

import os
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import dovetail

FILES = {
    "broken.py": 'from dovetail import Server\n\nserver = Server("x")\nprint((1, 2)\n',
    "raises.py": 'import os\n\n\ndef load():\n    return os.environ["API_KEY_X"]\n\n\nload()\n',
    "two.py": 'from dovetail import Server\n\none = Server("one")\nother = Server("other")\n',
    "noserver.py": "x = 1\n",
    "server.py": (
        'from dovetail import Server\n\nserver = Server("x")\n\n\n'
        '@server.tool\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'
    ),
    "hello.py": 'print("Hello world")\n',
    "killed.py": 'import os\n\nos.write(2, b"allocating\\n")\nos.kill(os.getpid(), 9)\n',
    "hangs.py": 'import os\n\nos.write(2, b"waiting for the database\\n")\nwhile True:\n    input()\n',
    "banner.py": 'print("Welcome!", flush=True)\nfrom server import server\n\nserver.run()\n',
}

RUN = f"{sys.executable} "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def shown(folder: Path, *words: str) -> str:
    """What `dovetail list` prints for a server that does not start."""
    done = dovetail("list", *words, cwd=folder)
    assert done.code == 4
    assert done.out == ""
    return done.err.replace(str(folder), "FOLDER").replace(sys.executable, "python")


def test_a_syntax_error_is_the_line_and_the_error(folder: Path) -> None:
    assert shown(folder, "broken.py") == (
        "dovetail: broken.py cannot be loaded:\n"
        '  File "FOLDER/broken.py", line 4\n'
        "    print((1, 2)\n"
        "         ^\n"
        "SyntaxError: '(' was never closed\n"
    )


def test_an_exception_has_the_frames_of_the_file_only(folder: Path) -> None:
    lines = shown(folder, "raises.py").splitlines()
    assert [line for line in lines if "^^^" not in line] == [
        "dovetail: raises.py cannot be loaded:",
        '  File "FOLDER/raises.py", line 8, in <module>',
        "    load()",
        '  File "FOLDER/raises.py", line 5, in load',
        '    return os.environ["API_KEY_X"]',
        "KeyError: 'API_KEY_X'",
    ]


def test_the_whole_traceback_is_there_for_those_who_want_it(folder: Path) -> None:
    done = dovetail("run", "raises.py", cwd=folder, DOVETAIL_FULL_TRACEBACK="1")
    assert "load_server.py" in done.err
    assert done.err.endswith("KeyError: 'API_KEY_X'\n")
    assert dovetail("run", "raises.py", cwd=folder).err.count("File") == 2


def test_a_file_with_two_servers(folder: Path) -> None:
    assert shown(folder, "two.py") == ("dovetail: two.py has several servers; name one: two.py:one or two.py:other\n")


def test_a_file_without_a_server(folder: Path) -> None:
    assert shown(folder, "noserver.py") == (
        "dovetail: noserver.py has no Server at its top level; write: server = Server(…)\n"
    )


def test_an_object_that_is_no_server(folder: Path) -> None:
    assert shown(folder, "server.py:add") == (
        "dovetail: server.py has no Server named 'add'; it is a function; did you mean server?\n"
    )
    assert shown(folder, "server.py:nope") == "dovetail: server.py has no Server named 'nope'; did you mean server?\n"


def test_a_program_that_does_not_exist(folder: Path) -> None:
    assert shown(folder, "nosuchprogram x") == (
        "dovetail: Could not start 'nosuchprogram': there is no such program in PATH\n"
    )


def test_a_script_that_does_not_exist(folder: Path) -> None:
    name = os.path.basename(sys.executable)
    assert shown(folder, RUN + "nosuch.py") == (
        f"dovetail: '{name} nosuch.py' exited with code 2; its stderr: "
        "python: can't open file 'FOLDER/nosuch.py': [Errno 2] No such file or directory\n"
    )


def test_a_program_that_is_no_server_is_quoted(folder: Path) -> None:
    name = os.path.basename(sys.executable)
    assert shown(folder, RUN + "hello.py") == (
        f"dovetail: '{name} hello.py' exited with code 0; it printed to stdout, which is for MCP messages only:\n"
        "Hello world\n"
    )


def test_a_program_that_is_ended_by_a_signal(folder: Path) -> None:
    name = os.path.basename(sys.executable)
    assert shown(folder, RUN + "killed.py") == (
        f"dovetail: '{name} killed.py' was ended by the signal SIGKILL; its stderr: allocating\n"
    )


def test_a_program_that_does_not_answer(folder: Path) -> None:
    assert shown(folder, RUN + "hangs.py", "--timeout", "1") == (
        "dovetail: No answer to initialize within 1 s; its stderr: waiting for the database\n"
    )


def test_a_server_that_prints_before_it_serves_works_with_a_warning(folder: Path) -> None:
    done = dovetail("list", RUN + "banner.py", cwd=folder)
    assert done.code == 0
    assert "add" in done.out
    assert done.err.replace(sys.executable, "python") == (
        "The server 'python banner.py' sent something that is no message "
        "(Parse error: JSON is malformed: invalid character (byte 0)): 'Welcome!'\n"
    )


def test_an_error_for_scripts_is_one_line_of_json(folder: Path) -> None:
    done = dovetail("list", "broken.py", "--format", "json", cwd=folder)
    assert done.err.count("\n") == 1
    assert done.error["message"].startswith("broken.py cannot be loaded:\n")
