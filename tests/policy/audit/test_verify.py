"""Whoever touches a record is found out, and where."""

import os
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dovetail.policy.audit.chain import START, encode_entry, encode_line, link_hash, split_line
from dovetail.policy.audit.files import head_path
from dovetail.policy.audit.log import KEY_FILE, Audit
from dovetail.policy.audit.verify import verify, verify_lines
from dovetail.protocol.errors import LocalError

PLACE = "/record.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Audit(folder=tmp_path) as audit:
        for n in range(9):
            audit.write("call", server="s", name=f"tool {n}", arguments={"n": n})
    return tmp_path


def lines(folder: Path) -> list[bytes]:
    return (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)


def problem(folder: Path, changed: list[bytes]) -> str | None:
    (folder / "audit.jsonl").write_bytes(b"".join(changed))
    return verify(folder=folder).problem


def test_what_nobody_touched_is_whole(folder: Path) -> None:
    assert verify(folder=folder).records == 10
    assert verify(folder=folder).whole


class TestFoundOut:
    def test_an_edit(self, folder: Path) -> None:
        known = lines(folder)
        known[4] = known[4].replace(b"tool 3", b"tool 8")
        assert problem(folder, known) == "record 4 was changed, or what is before it"
        assert verify(folder=folder).records == 4

    def test_an_edit_with_a_new_hash(self, folder: Path) -> None:
        """Whoever has no key can make the chain anew, and not the seals."""
        known = lines(folder)
        before = split_line(known[3])
        link = split_line(known[4].replace(b"tool 3", b"tool 8"))
        assert before is not None and link is not None
        known[4] = (
            known[4]
            .replace(b"tool 3", b"tool 8")
            .replace(link.hash.encode(), link_hash(before.hash, link.body).encode())
        )
        assert problem(folder, known) == "record 4 was not written by Dovetail: its seal is wrong"

    def test_the_beginning_cut_off(self, folder: Path) -> None:
        assert problem(folder, lines(folder)[3:]) == "record 0 is missing or was moved: record 3 stands in its place"

    def test_the_middle_cut_out(self, folder: Path) -> None:
        known = lines(folder)
        del known[4:6]
        assert problem(folder, known) == "record 4 is missing or was moved: record 6 stands in its place"

    @pytest.mark.parametrize("left", [9, 5, 1])
    def test_the_end_cut_off(self, folder: Path, left: int) -> None:
        assert problem(folder, lines(folder)[:left]) == f"the end is missing: records {left} to 9"

    def test_all_of_it(self, folder: Path) -> None:
        assert problem(folder, []) == "the end is missing: records 0 to 9"
        (folder / "audit.jsonl").unlink()
        assert "the record is gone" in (verify(folder=folder).problem or "")

    def test_another_order(self, folder: Path) -> None:
        known = lines(folder)
        known[2], known[7] = known[7], known[2]
        assert problem(folder, known) == "record 2 is missing or was moved: record 7 stands in its place"

    def test_a_record_twice(self, folder: Path) -> None:
        known = lines(folder)
        assert problem(folder, [*known[:5], known[4], *known[5:]]) == (
            "record 5 is missing or was moved: record 4 stands in its place"
        )

    def test_a_record_put_in(self, folder: Path) -> None:
        known = lines(folder)
        forged = encode_line(5, "2026", encode_entry("call"), START, b"x" * 32)[0]
        assert problem(folder, [*known[:5], forged, *known[5:]]) == "record 5 was changed, or what is before it"

    def test_a_record_put_at_the_end(self, folder: Path) -> None:
        last = split_line(lines(folder)[-1])
        assert last is not None
        forged = encode_line(10, "2026", encode_entry("call"), last.hash, b"x" * 32)[0]
        assert problem(folder, [*lines(folder), forged]) == ("record 10 was not written by Dovetail: its seal is wrong")

    def test_files_swapped(self, folder: Path) -> None:
        other = folder / "other.jsonl"
        with Audit(other, folder=folder) as audit:
            for n in range(9):
                audit.write("call", name=str(n))
        os.rename(folder / "audit.jsonl", folder / "x")
        os.rename(other, folder / "audit.jsonl")
        os.rename(folder / "x", other)
        assert "it was moved here, or swapped with another" in (verify(folder=folder).problem or "")
        os.rename(head_path(other), folder / "x")
        os.rename(head_path(folder / "audit.jsonl"), head_path(other))
        os.rename(folder / "x", head_path(folder / "audit.jsonl"))
        assert "it was moved here, or swapped with another" in (verify(folder=folder).problem or "")
        assert verify(other, folder=folder, kept_at=folder / "audit.jsonl").records == 10

    def test_an_older_copy_with_the_new_head(self, folder: Path) -> None:
        old = lines(folder)
        Audit(folder=folder).write("call")
        assert problem(folder, old) == "the end is missing: records 10 to 10"

    def test_a_new_record_under_the_old_head(self, folder: Path) -> None:
        """Another record of the same place: its seals are good, and its head is not."""
        head = head_path(folder / "audit.jsonl").read_bytes()
        (folder / "audit.jsonl").unlink()
        head_path(folder / "audit.jsonl").unlink()
        with Audit(folder=folder) as audit:
            for n in range(9):
                audit.write("call", server="s", name=f"tool {n}", arguments={"n": n})
        head_path(folder / "audit.jsonl").write_bytes(head)
        assert verify(folder=folder).problem == "record 9 is not the one that the head tells of"

    def test_the_head(self, folder: Path) -> None:
        head = head_path(folder / "audit.jsonl")
        head.write_bytes(head.read_bytes().replace(b"0010", b"0009", 1))
        assert "the head was changed" in (verify(folder=folder).problem or "")
        head.unlink()
        assert "the head is missing" in (verify(folder=folder).problem or "")

    def test_another_key(self, folder: Path) -> None:
        (folder / KEY_FILE).write_bytes(b"x" * 32)
        assert verify(folder=folder).problem == "record 0 was not written by Dovetail: its seal is wrong"


def test_a_missing_key_or_log_is_an_error(folder: Path, tmp_path: Path) -> None:
    (folder / KEY_FILE).unlink()
    with pytest.raises(LocalError, match="There is no key"):
        verify(folder=folder)
    with pytest.raises(LocalError, match="There is no record"):
        verify(tmp_path / "none.jsonl", folder=folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, bytes, str]:
    folder = tmp_path_factory.mktemp("audit")
    with Audit(folder=folder) as audit:
        for n in range(4):
            audit.write("call", server="sérver", name=f"tool {n}", arguments={"n": n})
    path = folder / "audit.jsonl"
    return path.read_bytes(), head_path(path).read_bytes(), (folder / KEY_FILE).read_bytes(), str(path)


def is_whole(log: bytes, head: bytes, key: bytes, place: str) -> bool:
    return verify_lines(log.splitlines(keepends=True), head, key, place).whole


def test_the_properties_begin_with_something_whole(written: tuple[bytes, bytes, bytes, str]) -> None:
    assert is_whole(*written)


@given(st.data())
def test_any_byte_of_the_record_that_changes_is_found(
    written: tuple[bytes, bytes, bytes, str], data: st.DataObject
) -> None:
    log, head, key, place = written
    at, byte = data.draw(st.integers(0, len(log) - 1)), data.draw(st.integers(0, 255))
    assume(log[at] != byte)
    assert not is_whole(log[:at] + bytes([byte]) + log[at + 1 :], head, key, place)


@given(st.data())
def test_any_byte_of_the_head_that_changes_is_found(
    written: tuple[bytes, bytes, bytes, str], data: st.DataObject
) -> None:
    log, head, key, place = written
    at, byte = data.draw(st.integers(0, len(head) - 1)), data.draw(st.integers(0, 255))
    assume(head[at] != byte)
    assert not is_whole(log, head[:at] + bytes([byte]) + head[at + 1 :], key, place)


@given(st.data())
def test_any_piece_that_is_taken_out_or_put_in_is_found(
    written: tuple[bytes, bytes, bytes, str], data: st.DataObject
) -> None:
    log, head, key, place = written
    start = data.draw(st.integers(0, len(log) - 1))
    end = data.draw(st.integers(start + 1, len(log)))
    assert not is_whole(log[:start] + log[end:], head, key, place)
    assert not is_whole(log[:end] + log[start:end] + log[end:], head, key, place)


@given(st.permutations(range(5)), st.lists(st.integers(0, 4), max_size=8))
@example([1, 0, 2, 3, 4], [])
def test_any_other_order_is_found(
    written: tuple[bytes, bytes, bytes, str], order: list[int], choice: list[int]
) -> None:
    log, head, key, place = written
    known = log.splitlines(keepends=True)
    for numbers in (order, choice):
        assume(numbers != [0, 1, 2, 3, 4])
        assert not is_whole(b"".join(known[n] for n in numbers), head, key, place)
