"""Snapshots in files."""

from pathlib import Path

import pytest

from dovetail import LocalError
from dovetail.testing import SnapshotDiffers, check_snapshot, load_snapshot, save_snapshot

FOUND = {"tools": {"b": {"inputSchema": {}}, "a": {"inputSchema": {"type": "object"}}}, "capabilities": {"tools": {}}}


def test_a_snapshot_is_the_same_file_every_time(tmp_path: Path) -> None:
    file = tmp_path / "new" / "weather.json"
    save_snapshot(FOUND, file)
    text = file.read_text()
    save_snapshot({"capabilities": {"tools": {}}, "tools": dict(reversed(FOUND["tools"].items()))}, file)
    assert file.read_text() == text
    assert text.startswith('{\n  "capabilities"')
    assert text.endswith("}\n")
    assert load_snapshot(file) == FOUND
    check_snapshot(FOUND, file)


def test_a_change_fails_and_is_described(tmp_path: Path) -> None:
    save_snapshot(FOUND, tmp_path / "a.json")
    with pytest.raises(SnapshotDiffers) as failure:
        check_snapshot({**FOUND, "tools": {"a": FOUND["tools"]["a"]}}, tmp_path / "a.json")
    assert str(failure.value) == f'The server differs from {tmp_path / "a.json"}:\ntool "b"\n  ! is gone'


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="There is no snapshot"):
        load_snapshot(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(LocalError, match=r"b\.json is no snapshot"):
        load_snapshot(tmp_path / "b.json")
