"""Looking things up in the record."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dovetail.policy.audit.log import Audit
from dovetail.policy.audit.reader import as_csv, as_json_lines, read_records
from dovetail.protocol.errors import LocalError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Audit(folder=tmp_path) as audit:
        audit.write("call", server="git", name="log", by="policy", rule="allow", arguments={"n": 1})
        audit.write("refusal", server="git", name="=HYPERLINK(1)", by="person")
        audit.write("call", server="time", name='quote " and, comma\nline')
    return tmp_path / "audit.jsonl"


def test_filters(path: Path) -> None:
    def found(**wanted: object) -> list[int]:
        return [record.n for record in read_records(path, **wanted)]  # pyright: ignore[reportArgumentType]

    assert found() == [0, 1, 2, 3]
    assert found(server="git") == [1, 2]
    assert found(event="call") == [1, 3]
    assert found(server="git", event="call") == [1]
    now = datetime.now(UTC)
    assert found(since=now - timedelta(hours=1)) == [0, 1, 2, 3]
    assert found(since=now + timedelta(hours=1)) == []


def test_json_lines(path: Path) -> None:
    read = [json.loads(line) for line in as_json_lines(read_records(path, server="git"))]
    assert [each["event"] for each in read] == ["call", "refusal"]
    assert read[0]["details"] == {"arguments": {"n": 1}}
    assert "seal" not in read[0]


def test_csv_that_no_spreadsheet_runs(path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO("".join(as_csv(read_records(path))))))
    assert rows[1]["details"] == '{"arguments":{"n":1}}'
    assert rows[2]["name"] == "'=HYPERLINK(1)"
    assert rows[3]["name"] == 'quote " and, comma\nline'


def test_what_cannot_be_read(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="There is no record"):
        list(read_records(tmp_path / "none"))
    with path.open("ab") as log:
        log.write(b"rubbish\n")
    with pytest.raises(LocalError, match="record 4 cannot be read; see `dovetail audit verify`"):
        list(read_records(path))
