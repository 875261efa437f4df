"""Files in the user's folder, changed by many at once."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dovetail.policy.accepted import Accepted
from dovetail.policy.definitions import Definition
from dovetail.policy.switches import Switches
from dovetail.policy.user_file import UserFile
from dovetail.protocol.errors import LocalError

CHANGE = """
import sys
from pathlib import Path
from dovetail.policy.user_file import UserFile
file = UserFile(Path(sys.argv[1]), list[str], [])
for n in range(20):
    file.change(lambda known: [*known, f"{sys.argv[2]}{n}"])
"""


def test_no_change_is_lost_between_processes(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "list.json"
    processes = [subprocess.Popen([sys.executable, "-c", CHANGE, str(path), mark]) for mark in "abc"]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    found = UserFile(path, list[str], []).read()
    assert sorted(found) == sorted(f"{mark}{n}" for mark in "abc" for n in range(20))
    assert sorted(each.name for each in path.parent.iterdir()) == [".list.json.turn", "list.json"]


def test_nor_between_threads(tmp_path: Path) -> None:
    file = UserFile(tmp_path / "list.json", list[int], [])
    threads = [threading.Thread(target=lambda n=n: file.change(lambda known: [*known, n])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(file.read()) == list(range(8))


def test_what_others_changed_is_seen(tmp_path: Path) -> None:
    one, other = (UserFile(tmp_path / "x.json", list[int], []) for _ in range(2))
    assert one.read() == []
    other.change(lambda _: [1])
    assert one.read() == [1]
    assert one.read() is one.read()
    (tmp_path / "x.json").unlink()
    assert one.read() == []


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    file = UserFile(tmp_path / "x.json", list[int], [])
    file.change(lambda _: [1])
    with pytest.raises(ZeroDivisionError):
        file.change(lambda _: [1 // 0])
    file.change(lambda known: [*known, 2])
    assert file.read() == [1, 2]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match="cannot be made"):
        UserFile(tmp_path / "file" / "x.json", list[int], []).change(lambda _: [1])


def test_switches(tmp_path: Path) -> None:
    switches = Switches(tmp_path)
    switches.turn_off("git", "push")
    switches.turn_off("git", "reset")
    assert not Switches(tmp_path).is_on("git", "push")
    assert switches.is_on("git", "log") and switches.is_on("other", "push")
    switches.turn_on("git", "push")
    assert switches.is_on("git", "push") and not switches.is_on("git", "reset")


def test_accepted(tmp_path: Path) -> None:
    accepted, definition = Accepted(tmp_path), Definition("tool", "x", {"name": "x"})
    assert not accepted.has("s", definition)
    accepted.add("s", definition)
    assert accepted.has("s", definition)
    assert not accepted.has("t", definition)
    assert not accepted.has("s", Definition("tool", "x", {"name": "x", "description": "other"}))
