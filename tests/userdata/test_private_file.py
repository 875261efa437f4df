"""Files that are whole, private, and taken in turns."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dovetail.userdata.private_file import (
    FileUnusable,
    check_private_folder,
    create_private,
    file_lock,
    read_file,
    write_private,
    write_shared,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_writing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    assert read_file(path) is None
    write_private(path, b"one")
    write_private(path, b"two")
    assert read_file(path) == b"two"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert [each.name for each in path.parent.iterdir()] == ["b"], "no draft is left"


def test_a_wider_mode_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    path.chmod(0o666)
    write_private(path, b"x")
    assert mode(path) == 0o600
    write_shared(path, b"x")
    assert mode(path) == 0o644


def test_whoever_reads_finds_the_old_or_the_new_one(tmp_path: Path) -> None:
    path, contents = tmp_path / "a", [bytes([65 + n]) * 100_000 for n in range(2)]
    write_private(path, contents[0])
    stop = threading.Event()
    seen: set[bytes | None] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(read_file(path))

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(50):
        write_private(path, contents[n % 2])
    stop.set()
    thread.join()
    assert seen <= set(contents)


def test_of_two_processes_that_create_a_file_the_first_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert create_private(path, b"first")
    assert not create_private(path, b"second")
    assert read_file(path) == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_what_cannot_be_done_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(FileUnusable, match="cannot be made"):
        write_private(tmp_path / "file" / "x", b"")
    with pytest.raises(FileUnusable, match="cannot be written"):
        write_private(tmp_path / "folder", b"")
    with pytest.raises(FileUnusable, match="cannot be read"):
        read_file(tmp_path / "folder")
    with pytest.raises(FileUnusable, match="cannot be opened"), file_lock(tmp_path / "folder"):
        pass
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


HOLD = """
import sys
from pathlib import Path
from dovetail.userdata.private_file import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_turns_between_processes(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(FileUnusable, match="has not let go"), file_lock(path, patience=0.05):
            pass
        process.stdin.close()
        with file_lock(path, patience=20):
            pass


def test_turns_between_threads(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(20):
            with file_lock(tmp_path / "turn"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                os.stat(tmp_path)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_a_folder_that_others_can_use_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    with pytest.raises(FileUnusable, match="cannot be used"):
        check_private_folder(folder)
    folder.mkdir(mode=0o700)
    check_private_folder(folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(FileUnusable, match="is not private"):
        check_private_folder(link)
    folder.chmod(0o750)
    with pytest.raises(FileUnusable, match="is not private"):
        check_private_folder(folder)
