"""Files in the user's folder, changed by many at once."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dovetail.policy.audit.log import Audit, Unrecorded
from dovetail.policy.definitions import Definition
from dovetail.policy.lockfile import LockFile
from dovetail.policy.policy_file import build_policy
from dovetail.policy.user_decisions import AcceptedWarnings, ToolSwitches
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


def test_no_change_is_lost_between_threads(tmp_path: Path) -> None:
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
    switches = ToolSwitches(tmp_path)
    switches.turn_off("git", "push")
    switches.turn_off("git", "reset")
    assert not ToolSwitches(tmp_path).is_on("git", "push")
    assert switches.is_on("git", "log") and switches.is_on("other", "push")
    switches.turn_on("git", "push")
    assert switches.is_on("git", "push") and not switches.is_on("git", "reset")


def test_accepted(tmp_path: Path) -> None:
    accepted, definition = AcceptedWarnings(tmp_path), Definition("tool", "x", {"name": "x"})
    assert not accepted.has("s", definition)
    accepted.add("s", definition)
    assert accepted.has("s", definition)
    assert not accepted.has("t", definition)
    assert not accepted.has("s", Definition("tool", "x", {"name": "x", "description": "other"}))


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
class TestOthersOnThisMachine:
    def test_a_file_that_they_can_write_is_not_believed(self, tmp_path: Path) -> None:
        switches = ToolSwitches(tmp_path / "user")
        switches.turn_off("a", "x")
        path = tmp_path / "user" / "switched_off.json"
        for mode in (0o620, 0o602):
            path.chmod(mode)
            with pytest.raises(LocalError, match="Others on this machine can write"):
                ToolSwitches(tmp_path / "user").is_on("a", "x")
        path.chmod(0o600)
        assert not ToolSwitches(tmp_path / "user").is_on("a", "x")

    def test_a_file_in_a_folder_that_others_can_write_is_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "user"
        ToolSwitches(folder).turn_off("a", "x")
        folder.chmod(0o777)
        with pytest.raises(LocalError, match="chmod"):
            ToolSwitches(folder).is_on("a", "x")

    def test_a_key_that_others_can_write_is_refused(self, tmp_path: Path) -> None:
        with Audit(folder=tmp_path / "user") as audit:
            audit.write("call")
        (tmp_path / "user" / "audit.key").chmod(0o666)
        with Audit(folder=tmp_path / "user") as audit, pytest.raises(Unrecorded, match="Others on this machine"):
            audit.write("call")

    @pytest.mark.parametrize("device", ["/dev/zero", "pipe", "."])
    def test_what_is_no_file_is_neither_read_for_ever_nor_waited_for(self, tmp_path: Path, device: str) -> None:
        """A project could hold a link to it."""
        target = Path(device)
        if device == "pipe":
            target = tmp_path / "pipe"
            os.mkfifo(target)
        for name in ("mcp.lock", "mcp.policy.toml"):
            (tmp_path / name).symlink_to(target)
        with pytest.raises(LocalError, match="cannot be read"):
            LockFile(tmp_path / "mcp.lock", tmp_path / "user").read()
        with pytest.raises(LocalError, match="cannot be read"):
            build_policy(folder=tmp_path / "user", project=tmp_path)


def test_what_cannot_be_looked_at_is_an_error_and_no_yes(tmp_path: Path) -> None:
    """A link in a circle; a folder that may not be entered gives the same."""
    (tmp_path / "switched_off.json").symlink_to(tmp_path / "switched_off.json")
    with pytest.raises(LocalError, match="cannot be read"):
        ToolSwitches(tmp_path).is_on("a", "x")
