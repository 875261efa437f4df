"""Transcripts: what they keep, and what they must not."""

from pathlib import Path

import pytest

from dovetail import Client, LocalError
from dovetail.testing import Line, Transcript
from dovetail.testing.message_diff import HIDDEN
from tests.testing.booking import booking


async def test_a_connection_is_recorded_and_comes_back_from_a_file(tmp_path: Path) -> None:
    transcript = Transcript()
    async with Client(booking(), revision="2025-11-25", trace=transcript) as client:
        await client.call("add", a=1, b=2)
    methods = [line.message.get("method") for line in transcript.lines]
    assert methods[:5] == ["initialize", None, "notifications/initialized", "tools/call", None]
    assert [line.sender for line in transcript.lines[:5]] == ["client", "server", "client", "client", "server"]
    file = tmp_path / "new" / "add.jsonl"
    transcript.save(file)
    assert Transcript.load(file).lines == transcript.lines
    assert file.read_text().startswith('{"from":"client","message":{"jsonrpc":"2.0"')


def test_secrets_are_not_kept() -> None:
    transcript = Transcript()
    transcript(
        "sent", b'{"params": {"Token": "s3cret", "tokens": "ok", "list": [{"password": "s3cret"}], "secret": 5}}'
    )
    assert transcript.lines == [
        Line("client", {"params": {"Token": HIDDEN, "tokens": "ok", "list": [{"password": HIDDEN}], "secret": 5}})
    ]
    own = Transcript(hide=["city"])
    own("sent", b'{"city": "Lima", "token": "kept"}')
    assert own.lines[0].message == {"city": HIDDEN, "token": "kept"}


def test_a_batch_comes_one_by_one_and_noise_not_at_all() -> None:
    transcript = Transcript()
    transcript("received", b'[{"id": 1, "result": {}}, {"id": 2, "result": {}}, 7]')
    for noise in (b"hello", b"\xff", b"[" * 100_000, b"3"):
        transcript("received", noise)
    assert [line.message["id"] for line in transcript.lines] == [1, 2]
    assert {line.sender for line in transcript.lines} == {"server"}


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"There is no transcript .*a\.jsonl"):
        Transcript.load(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text('{"from":"client","message":{}}\n\n{"from":"nobody","message":{}}\n')
    with pytest.raises(LocalError, match=r"b\.jsonl:3 is no line of a transcript"):
        Transcript.load(tmp_path / "b.jsonl")
