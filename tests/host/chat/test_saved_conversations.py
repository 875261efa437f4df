"""Saved conversations: private files, bounded, with their marks, without known secrets, and never with decisions."""

import time
from pathlib import Path

import msgspec
import pytest

from dovetail.host.chat import saved_conversations
from dovetail.host.chat.provenance import framed, unframed
from dovetail.host.chat.saved_conversations import SavedConversations, fitted, new_id, title_of
from dovetail.protocol.errors import LocalError
from dovetail.protocol.sampling import check_conversation
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Image, Text, ToolResultContent, ToolUse
from dovetail.types.serialization import dump
from dovetail.userdata.private_file import FileUnusable


def turn(number: int, result: str = "42", media: bytes | None = None) -> list[SamplingMessage]:
    """A turn with a tool call."""
    part = Text(text=framed("calc", result)) if media is None else Image(data=media, mime_type="image/png")
    return [
        SamplingMessage(role="user", content=Text(text=f"question {number}")),
        SamplingMessage(role="assistant", content=[ToolUse(id=f"u{number}", name="calc__add", input={"a": number})]),
        SamplingMessage(role="user", content=ToolResultContent(tool_use_id=f"u{number}", content=[part])),
        SamplingMessage(role="assistant", content=Text(text=f"answer {number}")),
    ]


def test_a_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    saved, id = SavedConversations(tmp_path), new_id()
    messages = turn(1) + turn(2)
    saved.save(id, messages, "qwen", {"u1": "calc"})
    found = saved.load(id)
    assert found.messages == messages and found.owners == {"u1": "calc"}
    assert (found.summary.title, found.summary.model, found.summary.count) == ("question 1", "qwen", 8)
    assert saved.load("last") == saved.load(id[:10]) == found


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    saved, id = SavedConversations(tmp_path), new_id()
    saved.save(id, turn(1), "qwen", {})
    path = tmp_path / "conversations" / f"{id}.json"
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0
    path.chmod(0o666)
    with pytest.raises(FileUnusable, match="can write"):
        saved.load(id)


def test_known_secrets_are_not_saved(tmp_path: Path) -> None:
    saved, id = SavedConversations(tmp_path), new_id()
    saved.save(id, turn(1, "the key is hunter22"), "qwen", {}, lambda text: text.replace("hunter22", "[redacted]"))
    assert b"hunter22" not in (tmp_path / "conversations" / f"{id}.json").read_bytes()
    assert "the key is [redacted]" in str(saved.load(id).messages)


def test_the_oldest_conversations_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_conversations, "MAX_CONVERSATIONS", 3)
    saved = SavedConversations(tmp_path)
    clock = iter(range(1000, 2000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    ids = [f"20260101-00000{number}-abcd" for number in range(5)]
    for id in ids:
        saved.save(id, turn(1), "qwen", {})
    saved.save(ids[2], turn(1) + turn(2), "qwen", {})
    assert [each.id for each in saved.list()] == [ids[2], ids[4], ids[3]]


def test_a_long_conversation_loses_images_first_and_then_its_oldest_turns() -> None:
    pictures = [dump(each) for number in range(4) for each in turn(number, media=b"A" * 1000)]
    kept = fitted(pictures, 4000)
    assert len(kept) == len(pictures) and "did not save image/png" in str(kept) and "QUFB" not in str(kept)
    texts = [dump(each) for number in range(4) for each in turn(number, "x" * 1000)]
    kept = fitted(texts, 4000)
    assert 0 < len(kept) < len(texts) and len(kept) % 4 == 0
    check_conversation([msgspec.convert(each, SamplingMessage) for each in kept])
    assert fitted(texts, 10) == []


@pytest.mark.parametrize("content", [b"", b"{}\n{}\n", b"not json", b'{"id": "x"}\n'])
def test_a_broken_file_is_left_out_of_the_list(content: bytes, tmp_path: Path) -> None:
    saved = SavedConversations(tmp_path)
    saved.save(new_id(), turn(1), "qwen", {})
    (tmp_path / "conversations" / f"{new_id()}.json").write_bytes(content)
    assert len(saved.list()) == 1


def test_what_cannot_be_continued_is_said(tmp_path: Path) -> None:
    saved, id = SavedConversations(tmp_path), new_id()
    with pytest.raises(LocalError, match="There is no saved conversation"):
        saved.load("last")
    saved.save(id, turn(1), "qwen", {})
    path = tmp_path / "conversations" / f"{id}.json"
    with pytest.raises(LocalError, match="There is no saved conversation 'nosuch'; the last one is"):
        saved.load("nosuch")
    summary = path.read_bytes().partition(b"\n")[0]
    half = [dump(each) for each in turn(1)[:2]]
    path.write_bytes(summary + b"\n" + msgspec.json.encode({"messages": half, "owners": {}}))
    with pytest.raises(LocalError, match="is no conversation that can be continued"):
        saved.load(id)
    for outside in ("../x", "/etc/passwd", "20260101-000000-abcd/../x"):
        with pytest.raises(LocalError):
            saved.delete(outside)


def test_the_title_is_what_the_user_wrote_and_no_attachment() -> None:
    blocks = [Text(text=framed("desk", "Back at nine.", kind="resource")), Text(text="What  is\nthis?")]
    assert title_of([SamplingMessage(role="user", content=list(blocks))]) == "What is this?"
    assert unframed(f"a {framed('s', 'b')} c") == "a b c"
