"""Writing the record: quickly, by many at once, or not at all."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail.policy.audit.files import head_path
from dovetail.policy.audit.log import KEY_FILE, Audit, Unrecorded
from dovetail.policy.audit.verify import verify
from dovetail.protocol.errors import Refused

WRITE = """
import sys
from pathlib import Path
from dovetail.policy.audit.log import Audit
audit = Audit(folder=Path(sys.argv[1]))
for n in range(100):
    audit.write("call", server=sys.argv[2], name=str(n))
"""


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def test_a_record_holds_the_decision_without_secrets(tmp_path: Path) -> None:
    with Audit(folder=tmp_path) as audit:
        audit.write(
            "call",
            server="git",
            name="push",
            by="person",
            rule="ask about any tool of any server (default)",
            definition="ab" * 32,
            arguments={"branch": "main", "token": "ghp_0123456789abcdefghij"},
        )
    opening, record = records(tmp_path)
    assert opening["event"] == "open" and opening["n"] == 0
    assert opening["details"]["kept_at"] == str(tmp_path / "audit.jsonl")
    assert record.pop("at").endswith("+00:00")
    assert len(record.pop("hash")) == len(record.pop("seal")) == 64
    assert record == {
        "n": 1,
        "event": "call",
        "server": "git",
        "name": "push",
        "by": "person",
        "rule": "ask about any tool of any server (default)",
        "definition": "ab" * 32,
        "details": {"arguments": {"branch": "main", "token": "[redacted]"}},
    }


def test_only_the_user_can_read_the_log(tmp_path: Path) -> None:
    Audit(folder=tmp_path).write("config")
    for name in ("audit.jsonl", "audit.jsonl.head", KEY_FILE):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for n in range(3):
        with Audit(folder=tmp_path) as audit:
            audit.write("call", name=str(n))
            audit.write("result", name=str(n))
    assert [record["n"] for record in records(tmp_path)] == list(range(7))
    assert verify(folder=tmp_path).records == 7


def test_a_log_may_have_a_path_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "project" / "record.jsonl"
    Audit(path, folder=tmp_path / "home").write("call")
    assert verify(path, folder=tmp_path / "home").whole
    assert (tmp_path / "home" / KEY_FILE).exists()


def test_many_processes_write_one_log(tmp_path: Path) -> None:
    marks = ["a", "b", "c", "d"]
    processes = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), mark]) for mark in marks]
    assert [process.wait(60) for process in processes] == [0] * 4
    found = verify(folder=tmp_path)
    assert found.whole, found.problem
    assert found.records == 401
    for mark in marks:
        assert [r["name"] for r in records(tmp_path) if r.get("server") == mark] == [str(n) for n in range(100)]


def test_many_threads_and_objects_write_one_log(tmp_path: Path) -> None:
    audits = [Audit(folder=tmp_path), Audit(folder=tmp_path)]
    threads = [
        threading.Thread(target=lambda audit=audit: [audit.write("call") for _ in range(50)])
        for audit in (*audits, *audits)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for audit in audits:
        audit.close()
    assert verify(folder=tmp_path).records == 201


def test_writing_takes_little_time(tmp_path: Path) -> None:
    """Tens of microseconds; the bound is a hundred times that, for a busy machine."""
    with Audit(folder=tmp_path) as audit:
        audit.write("call")
        started = time.process_time()
        for n in range(200):
            audit.write("call", server="git", name="log", by="policy", rule="allow", arguments={"n": n, "path": "/a/b"})
        assert (time.process_time() - started) / 200 < 0.005


class TestWhatCannotBeRecordedIsNotDone:
    def refused(self, audit: Audit, words: str) -> None:
        with pytest.raises(Unrecorded, match=words) as caught:
            audit.write("call")
        assert isinstance(caught.value, Refused)

    def test_a_folder_that_is_a_file_refuses_the_action(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        self.refused(Audit(folder=tmp_path / "file"), "Nothing was done, because it cannot be recorded in")

    def test_a_key_file_without_a_key_refuses_the_action(self, tmp_path: Path) -> None:
        (tmp_path / KEY_FILE).write_bytes(b"short")
        self.refused(Audit(folder=tmp_path), "holds no key")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
    def test_a_full_disk_refuses_the_action(self, tmp_path: Path) -> None:
        """The head is on a device that is always full: neither it nor the record is written."""
        Audit(folder=tmp_path).write("call")
        before = (tmp_path / "audit.jsonl").read_bytes()
        audit = Audit(folder=tmp_path)
        audit.write("call")
        files = audit._files
        assert files is not None
        full = os.open("/dev/full", os.O_RDWR)
        os.dup2(full, files._head)
        os.close(full)
        self.refused(audit, "audit.jsonl")
        assert (tmp_path / "audit.jsonl").read_bytes().startswith(before)

    def test_a_log_whose_end_was_cut_off_refuses_the_action(self, tmp_path: Path) -> None:
        Audit(folder=tmp_path).write("call")
        log = tmp_path / "audit.jsonl"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
        self.refused(Audit(folder=tmp_path), "its end is missing.*dovetail audit verify")

    def test_a_log_that_is_cut_while_it_is_open_refuses_the_action(self, tmp_path: Path) -> None:
        audit = Audit(folder=tmp_path)
        audit.write("call")
        os.truncate(tmp_path / "audit.jsonl", 10)
        self.refused(audit, "its end is missing")

    def test_a_line_that_was_added_refuses_the_action(self, tmp_path: Path) -> None:
        Audit(folder=tmp_path).write("call")
        with (tmp_path / "audit.jsonl").open("ab") as log:
            log.write(b'{"n":2,"event":"call"}\n')
        self.refused(Audit(folder=tmp_path), "something was added")

    def test_a_head_of_another_log_refuses_the_action(self, tmp_path: Path) -> None:
        Audit(folder=tmp_path).write("call")
        Audit(tmp_path / "other.jsonl", folder=tmp_path).write("call", name="a longer record than the first one is")
        os.replace(tmp_path / "other.jsonl.head", tmp_path / "audit.jsonl.head")
        self.refused(Audit(folder=tmp_path), "its end is")

    def test_a_lock_that_is_held_for_too_long_refuses_the_action(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dovetail.policy.audit.files.PATIENCE", 0.05)
        Audit(folder=tmp_path).write("call")
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path / "audit.jsonl")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            audit = Audit(folder=tmp_path)
            self.refused(audit, "Another process has not let go")
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)
            audit.write("call")


HOLD = (
    "import fcntl, sys; log = open(sys.argv[1], 'rb'); fcntl.flock(log, fcntl.LOCK_EX);"
    "print('held', flush=True); sys.stdin.read()"
)


async def test_the_event_loop_runs_while_another_process_holds_the_log(tmp_path: Path) -> None:
    with Audit(folder=tmp_path) as audit:
        await audit.record("call", name="first")
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path / "audit.jsonl")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            waiting = [asyncio.create_task(audit.record("call", name=str(n))) for n in range(3)]
            for _ in range(20):  # a loop that waited for the lock would get here only after two seconds, and fail below
                await asyncio.sleep(0.001)
            assert not any(task.done() for task in waiting)
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.gather(*waiting)
    assert [record.get("name") for record in records(tmp_path)] == [None, "first", "0", "1", "2"]
    assert verify(folder=tmp_path).records == 5


async def test_records_of_one_turn_are_chained_and_in_order(tmp_path: Path) -> None:
    with Audit(folder=tmp_path) as audit:
        await asyncio.gather(*(audit.record("call", name=str(n)) for n in range(100)))
    assert [record.get("name") for record in records(tmp_path)] == [None, *map(str, range(100))]
    assert verify(folder=tmp_path).records == 101


async def test_what_is_recorded_soon_is_there_once_the_log_is_closed(tmp_path: Path) -> None:
    failures: list[Exception] = []
    with Audit(folder=tmp_path) as audit:
        await audit.record("call", name="1")
        audit.record_soon(failures.append, "result", name="1")
    assert [record["event"] for record in records(tmp_path)] == ["open", "call", "result"]
    assert failures == []


async def test_what_cannot_be_recorded_soon_is_reported(tmp_path: Path) -> None:
    failures: list[Exception] = []
    with Audit(folder=tmp_path) as audit:
        await audit.record("call")
        os.truncate(tmp_path / "audit.jsonl", 10)
        audit.record_soon(failures.append, "result")
        with pytest.raises(Unrecorded, match="its end is missing"):
            await audit.record("call")
    assert [type(failure) for failure in failures] == [Unrecorded]


class TestAfterAKill:
    """A program that was killed between the record and its head, or in the middle of a record."""

    def test_a_record_without_its_head_is_taken_up(self, tmp_path: Path) -> None:
        Audit(folder=tmp_path).write("call", name="1")
        head = head_path(tmp_path / "audit.jsonl").read_bytes()
        Audit(folder=tmp_path).write("call", name="2")
        head_path(tmp_path / "audit.jsonl").write_bytes(head)
        assert verify(folder=tmp_path).records == 3
        Audit(folder=tmp_path).write("call", name="3")
        assert verify(folder=tmp_path).records == 4

    def test_half_a_record_goes(self, tmp_path: Path) -> None:
        Audit(folder=tmp_path).write("call", name="1")
        with (tmp_path / "audit.jsonl").open("ab") as log:
            log.write(b'{"n":2,"at":"')
        assert verify(folder=tmp_path).problem == "record 2 was changed: the line is none that Dovetail writes"
        Audit(folder=tmp_path).write("call", name="2")
        assert verify(folder=tmp_path) == verify(folder=tmp_path)
        assert verify(folder=tmp_path).records == 3

    def test_killed_again_and_again(self, tmp_path: Path) -> None:
        program = WRITE.replace("range(100)", "range(10**9)")
        for _ in range(3):
            process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path), "x"])
            size = (tmp_path / "audit.jsonl").stat().st_size if (tmp_path / "audit.jsonl").exists() else 0
            until = time.monotonic() + 30
            while time.monotonic() < until:
                if (tmp_path / "audit.jsonl").exists() and (tmp_path / "audit.jsonl").stat().st_size > size + 20_000:
                    break
            process.kill()
            process.wait()
        Audit(folder=tmp_path).write("call", name="last")
        found = verify(folder=tmp_path)
        assert found.whole, found.problem


def test_a_record_that_was_moved_away_makes_room_for_a_new_one(tmp_path: Path) -> None:
    audit = Audit(folder=tmp_path)
    audit.write("call", name="old")
    os.rename(tmp_path / "audit.jsonl", tmp_path / "old.jsonl")
    os.rename(tmp_path / "audit.jsonl.head", tmp_path / "old.jsonl.head")
    audit.write("call", name="new")
    assert [record.get("name", "") for record in records(tmp_path)] == ["", "new"]
    assert verify(folder=tmp_path).records == 2
    assert verify(tmp_path / "old.jsonl", folder=tmp_path, kept_at=tmp_path / "audit.jsonl").records == 2


def test_what_is_known_to_be_a_secret_is_not_recorded_whatever_it_looks_like(tmp_path: Path) -> None:
    with Audit(folder=tmp_path) as audit:
        audit.hide(["correct horse", "Bearer staple-7", "x"])
        audit.write("result", error="it said: correct horse and staple-7, x", arguments={"a": ["staple-7"]})
    text = (tmp_path / "audit.jsonl").read_text()
    assert "horse" not in text
    assert "staple" not in text
    assert ", x" in text


def test_a_name_that_turns_out_to_be_a_secret_is_not_recorded_from_then_on(tmp_path: Path) -> None:
    with Audit(folder=tmp_path) as audit:
        audit.write("call", server="a", name="staple-7")
        audit.hide(["staple-7"])
        audit.write("call", server="a", name="staple-7")
    assert (tmp_path / "audit.jsonl").read_text().count("staple-7") == 1
