"""The pytest plugin, in runs of pytest of its own."""

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from dovetail.protocol.revisions import REVISIONS

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
import pytest
from tests.testing.booking import booking

@pytest.fixture
def mcp_server():
    return booking()
"""


class Folder:
    """A folder of tests, and what pytest says to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("conftest.py", CONFTEST)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", "-p", "dovetail.testing.plugin", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*argv, "-W", "error", "--strict-markers", "-q", "-o", "pythonpath=.", *arguments, "."],
            cwd=self.path,
            env={
                **os.environ,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            },
            capture_output=True,
            text=True,
            timeout=60,
        )

    def passes(self, count: int, *arguments: str) -> str:
        """Run the tests; all of so many pass."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{count} passed" in done.stdout
        return done.stdout

    def fails(self, *arguments: str) -> str:
        """Run the tests; at least one does not pass."""
        done = self.run(*arguments)
        assert done.returncode in (1, 4), done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_async_and_plain_tests_get_a_client(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
async def test_async(mcp_client, tmp_path):
    assert (await mcp_client.call("add", a=1, b=2)).data == 3

class TestPlain:
    def test_plain(self, mcp_blocking):
        assert mcp_blocking.call("add", a=1, b=2).data == 3

    async def test_method(self, mcp_client):
        self.seen = await mcp_client.tools()
        assert self.seen
""",
    )
    folder.passes(3)


def test_a_test_runs_once_for_each_revision_that_it_names(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
import pytest
pytestmark = pytest.mark.mcp(revisions=["2025-06-18"])

@pytest.mark.mcp(revisions="all", timeout=5)
async def test_all(mcp_client, mcp_revision):
    assert mcp_client.revision == mcp_revision
    assert mcp_client._options.timeout == 5

def test_one(mcp_blocking):
    assert mcp_blocking.revision == "2025-06-18"
""",
    )
    folder.write(
        "test_other.py",
        """
import pytest
@pytest.mark.mcp(revision="2024-11-05")
def test_other(mcp_blocking):
    assert mcp_blocking.revision == "2024-11-05"
def test_newest(mcp_blocking, mcp_revision):
    assert mcp_revision is None
""",
    )
    folder.passes(len(REVISIONS) + 3)


def test_the_server_may_be_named_by_the_marker_or_the_ini_file(folder: Folder) -> None:
    folder.write("conftest.py", "")
    folder.write("mine.py", "from dovetail import Server\nserver = Server('mine')\n")
    folder.write(
        "test_it.py",
        """
import sys
import pytest
from dovetail import Server

def test_ini(mcp_blocking):
    assert mcp_blocking.server.name == "mine"

@pytest.mark.mcp(Server("marked"))
def test_marked(mcp_blocking):
    assert mcp_blocking.server.name == "marked"

@pytest.mark.mcp(f"{sys.executable} -c 'from mine import server; server.run()'")
async def test_command(mcp_client):
    assert mcp_client.server.name == "mine"
""",
    )
    folder.passes(3, "-o", "mcp_server=mine:server")
    assert "Which server? Override the fixture mcp_server" in folder.fails()


def test_scripted_answers_are_checked_at_the_end(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
import pytest

@pytest.mark.mcp(revisions=["2025-11-25", "2026-07-28"])
async def test_book(mcp_client, mcp_script):
    mcp_script.elicit("When", {"day": "Monday"}).elicit("nights", {"ok": True})
    assert (await mcp_client.call("book", city="Lima")).data == "Lima on Monday"

def test_plain(mcp_script, mcp_blocking):
    mcp_script.elicit("When", "decline")
    assert mcp_blocking.call("book", city="Lima").data == "no dates"
""",
    )
    folder.passes(3)
    folder.write(
        "test_it.py",
        """
import pytest

async def test_left(mcp_client, mcp_script):
    mcp_script.elicit("When", "decline")

@pytest.mark.mcp(revision="2025-11-25")  # where the exception only reaches the server
def test_unasked(mcp_blocking, mcp_script):
    mcp_blocking.call("book", city="Lima")
""",
    )
    told = folder.fails("--show-capture=no")
    assert "2 failed" in told
    assert "Nobody asked for this answer: elicit 'When'" in told
    assert "The script has no answer to elicit 'When do you arrive?'; answers left: none" in told


def test_without_a_script_the_client_can_answer_nothing(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
import pytest
from dovetail import RemoteError

def test_it(mcp_blocking):
    with pytest.raises(RemoteError) as refusal:
        mcp_blocking.call("book", city="Lima")
    assert refusal.value.code == -32021
""",
    )
    folder.passes(1)


def test_a_transcript_is_recorded_and_then_stands_for_the_server(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
import pytest

@pytest.mark.mcp(transcript="transcripts/add.jsonl")
async def test_add(mcp_client):
    assert (await mcp_client.call("add", a=1, b=2)).data == 3

@pytest.mark.mcp(transcript="transcripts/book.jsonl", revision="2025-11-25")
def test_book(mcp_blocking, mcp_script):
    mcp_script.elicit("When", {"day": "Monday"}).elicit("nights", {"ok": True})
    assert mcp_blocking.call("book", city="Lima").data == "Lima on Monday"
""",
    )
    assert "run pytest with --mcp-update to record it" in folder.fails()
    folder.passes(2, "--mcp-update")
    folder.write("conftest.py", "")  # no server any more
    folder.passes(2)
    text = (folder.path / "test_it.py").read_text()
    folder.write("test_it.py", text.replace("a=1, b=2", "a=2, b=1"))
    told = folder.fails()
    assert "The transcript has no tools/call 'add' like this one" in told
    assert "1 failed, 1 passed" in told
    folder.write("test_it.py", text.replace("    assert (await", "    return\n    assert (await"))
    assert "The client did not send tools/call 'add'" in folder.fails()


def test_a_failed_recording_is_not_kept(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
import pytest
pytestmark = pytest.mark.mcp(transcript="a.jsonl", hide=["arguments"])
async def test_it(mcp_client):
    await mcp_client.call("add", a="x", b=2)
""",
    )
    folder.fails("--mcp-update")
    assert not (folder.path / "a.jsonl").exists()


def test_a_snapshot_shows_what_changed(folder: Folder) -> None:
    folder.write(
        "test_it.py",
        """
import pytest
from dovetail.testing import interface

@pytest.mark.mcp(revisions=["2025-11-25", "2026-07-28"])
async def test_interface(mcp_client, mcp_snapshot):
    mcp_snapshot(await interface(mcp_client))

def test_named(mcp_blocking, mcp_snapshot):
    mcp_snapshot(interface(mcp_blocking), "booking")
""",
    )
    assert "run pytest with --mcp-update to write it" in folder.fails()
    folder.passes(3, "--mcp-update")
    assert sorted(path.name for path in (folder.path / "snapshots").iterdir()) == [
        "booking.json",
        "test_it.test_interface-2025-11-25.json",
        "test_it.test_interface-2026-07-28.json",
    ]
    folder.passes(3)
    folder.write(
        "conftest.py",
        CONFTEST.replace("return booking()", "server = booking(); server.remove_tool('add'); return server"),
    )
    told = folder.fails()
    assert "3 failed" in told
    assert 'tool "add"' in told
    assert "! is gone" in told


def test_a_test_that_ran_is_as_it_was_and_can_run_again(folder: Folder) -> None:
    folder.write(
        "conftest.py",
        CONFTEST
        + """
before = {}

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    before[item] = item.obj

@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    yield
    assert item.obj is before[item]
""",
    )
    folder.write(
        "test_it.py",
        """
async def test_async(mcp_client, mcp_script): ...
def test_plain(mcp_blocking, mcp_script): ...
""",
    )
    folder.passes(2)


def test_a_plain_test_cannot_take_the_async_client(folder: Folder) -> None:
    folder.write("test_it.py", "def test_it(mcp_client): ...")
    assert "use mcp_blocking in others" in folder.fails()


def test_async_tests_without_a_client_are_left_to_other_plugins(folder: Folder) -> None:
    folder.write("test_it.py", "async def test_it(): ...")
    assert "async def functions are not natively supported" in folder.fails()


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = import_module(project["entry-points"]["pytest11"]["dovetail"])
    assert plugin.mcp_client is not None


def test_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, pytest; old = set(sys.modules); import dovetail.testing.plugin; "
        "print(*sorted(name for name in set(sys.modules) - old))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["dovetail", "dovetail.testing", "dovetail.testing.plugin"]


CLOCK = """
import asyncio
from dovetail import Server

server = Server("slow")

@server.tool(timeout=7200)
async def wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"
"""


def test_a_test_with_a_clock_skips_time(folder: Folder) -> None:
    folder.write("slow.py", CLOCK)
    folder.write(
        "test_slow.py",
        """
import asyncio
import pytest
from slow import server

pytestmark = pytest.mark.mcp(server, timeout=None)

async def test_until(mcp_client, mcp_clock):
    assert (await mcp_clock.until(mcp_client.call("wait", seconds=3600))).text == "done"

async def test_advance(mcp_clock, mcp_client):
    call = asyncio.create_task(mcp_client.call("wait", seconds=10_000, check=False))
    await mcp_clock.advance(7000)
    assert not call.done()
    await mcp_clock.advance(300)
    assert "did not finish within 7200 s" in call.result().text

async def test_without_a_client(mcp_clock):
    await mcp_clock.advance(3600)
""",
    )
    folder.passes(3)


def test_a_clock_is_for_async_tests_of_servers_in_the_process(folder: Folder) -> None:
    folder.write("slow.py", CLOCK)
    folder.write(
        "test_slow.py",
        """
import pytest

def test_plain(mcp_clock): ...

@pytest.mark.mcp("python server.py")
async def test_elsewhere(mcp_clock): ...
""",
    )
    said = folder.fails()
    assert "mcp_clock is for `async def` tests" in said
    assert "mcp_clock is for servers in this process, as `Server` objects, not for 'python server.py'" in said
