"""The revisions together."""

from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS, find


def test_every_published_revision_is_there_oldest_first() -> None:
    assert list(REVISIONS) == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert all(revision.name == name for name, revision in REVISIONS.items())


def test_every_revision_belongs_to_one_era() -> None:
    assert (*HANDSHAKE, *ENVELOPE) == tuple(REVISIONS)
    assert ENVELOPE == ("2026-07-28",)
    assert (NEWEST.name, NEWEST_HANDSHAKE.name) == ("2026-07-28", "2025-11-25")


def test_a_revision_is_found_by_its_name() -> None:
    assert find("2025-06-18") is REVISIONS["2025-06-18"]
    assert find("2023-01-01") is None
    assert find("DRAFT-2026-v1") is None
