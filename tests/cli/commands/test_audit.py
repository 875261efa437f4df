"""`dovetail audit`."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from dovetail.policy.audit.log import Audit
from tests.cli.invoke import Done, dovetail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Audit(folder=tmp_path / "dovetail") as audit:
        audit.write(
            "call", server="git", name="log", by="policy", rule="allow any tool of git (code)", arguments={"n": 1}
        )
        audit.write("refusal", server="git", name="push", by="person")
        audit.write("call", server="time", name="now\x1b[2J")
    return tmp_path


def audit(folder: Path, *words: str) -> Done:
    return dovetail("audit", *words, XDG_CONFIG_HOME=str(folder))


def test_audit_show_prints_the_records(folder: Path) -> None:
    shown = audit(folder, "show")
    assert shown.code == 0
    rows = shown.out.splitlines()
    assert rows[0].split() == ["n", "when", "event", "server", "name", "by", "what"]
    assert 'allow any tool of git (code) · {"arguments":{"n":1}}' in rows[3]
    assert len(rows) == 6
    assert "now\\u001b[2J" in rows[5], "nothing of it reaches a terminal, also through a pager"
    assert "\x1b" not in shown.out + audit(folder, "export", "--as", "csv").out


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ((), [0, 1, 2, 3]),
        (("--server", "git"), [1, 2]),
        (("--kind", "refusal"), [2]),
        (("--since", "1h"), [0, 1, 2, 3]),
        (("--since", "2999-01-01"), []),
        (("--since", "2020-01-01T10:00:00Z", "--kind", "call"), [1, 3]),
        (("--last", "1"), [3]),
    ],
)
def test_filters_select_records(folder: Path, words: tuple[str, ...], numbers: list[int]) -> None:
    assert [each["n"] for each in audit(folder, "show", *words, "--format", "json").result] == numbers


def test_audit_verify_finds_a_changed_record(folder: Path) -> None:
    log = folder / "dovetail" / "audit.jsonl"
    said = audit(folder, "verify").out
    assert re.fullmatch(rf"{re.escape(str(log))} is whole: 4 records, the first of [-0-9]+ [:0-9]+\.\n", said)
    facts = audit(folder, "verify", "--format", "json").result
    assert facts == {"file": str(log), "records": 4, "began": facts["began"]} and facts["began"]
    log.write_bytes(log.read_bytes().replace(b"push", b"pull"))
    done = audit(folder, "verify")
    assert done.code == 5
    assert f"{log} is not whole: record 2 was changed" in done.err
    assert audit(folder, "verify", "--format", "json").error["code"] == "tampered"


def test_audit_verify_accepts_a_moved_log_with_kept_at(folder: Path, tmp_path: Path) -> None:
    log, copy = folder / "dovetail" / "audit.jsonl", tmp_path / "copy.jsonl"
    copy.write_bytes(log.read_bytes())
    Path(f"{copy}.head").write_bytes(Path(f"{log}.head").read_bytes())
    assert audit(folder, "verify", str(copy)).code == 5
    assert audit(folder, "verify", str(copy), "--kept-at", str(log)).code == 0


def test_audit_export_writes_json_lines_and_csv(folder: Path) -> None:
    lines = [json.loads(line) for line in audit(folder, "export", "--server", "git").out.splitlines()]
    assert [each["name"] for each in lines] == ["log", "push"]
    rows = list(csv.DictReader(io.StringIO(audit(folder, "export", "--as", "csv").raw.decode())))
    assert [row["event"] for row in rows] == ["open", "call", "refusal", "call"]


def test_invalid_arguments_are_usage_errors(folder: Path) -> None:
    assert audit(folder).code == 1
    assert audit(folder, "show", "--since", "yesterday-ish").code == 1
    assert audit(folder, "show", "--last", "-1").code == 1
    assert audit(folder / "nowhere", "show").code == 1
