"""examples/files.py: what is inside the roots can be read, what is outside cannot, by whatever way."""

from pathlib import Path

import pytest

from dovetail import Client, ToolFailed
from examples.files import MAX_BYTES, server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a neighbour whose name begins the same, and links that lead in and out."""
    root = tmp_path / "ann"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "a.txt").write_text("inside")
    (tmp_path / "ann-old").mkdir()
    (tmp_path / "ann-old" / "secret.txt").write_text("TREASURE")
    (root / "in").symlink_to(root / "notes" / "a.txt")
    (root / "out").symlink_to(tmp_path / "ann-old" / "secret.txt")
    (root / "outfolder").symlink_to(tmp_path / "ann-old")
    (root / "round").symlink_to(root / "round")
    return root


async def test_a_folder_is_listed_and_a_file_read(root: Path, revision: str) -> None:
    async with Client(server, revision=revision, roots=[root]) as c:
        names = [entry["name"] for entry in (await c.call("list_files")).data]
        assert names == ["notes", "in", "out", "outfolder", "round"]
        assert (await c.call("list_files", path="notes")).data == [{"name": "a.txt", "folder": False, "size": 6}]
        assert (await c.call("read_file", path="notes/a.txt")).data == "inside"
        assert (await c.call("read_file", path=str(root / "notes" / "a.txt"))).data == "inside"
        assert (await c.call("read_file", path="in")).data == "inside"
        assert (await c.call("read_file", path="notes/../in")).data == "inside"


@pytest.mark.parametrize(
    "path",
    [
        "../ann-old/secret.txt",
        "notes/../../ann-old/secret.txt",
        "out",
        "outfolder/secret.txt",
        "round",
        "nothing",
        "a\0b",
        "/etc/passwd",
    ],
)
async def test_nothing_outside_is_read_or_told_of(root: Path, path: str) -> None:
    async with Client(server, roots=[root]) as c:
        with pytest.raises(ToolFailed, match="inside the roots") as failure:
            await c.call("read_file", path=path)
        assert "TREASURE" not in failure.value.result.text
        with pytest.raises(ToolFailed, match="inside the roots"):
            await c.call("list_files", path=path)


async def test_the_neighbour_with_the_same_beginning_is_outside(root: Path) -> None:
    async with Client(server, roots=[root]) as c:
        with pytest.raises(ToolFailed, match="inside the roots"):
            await c.call("read_file", path=f"{root}-old/secret.txt")


async def test_a_second_root_opens_what_it_holds(root: Path, asking_revision: str) -> None:
    async with Client(server, revision=asking_revision, roots=[root]) as c:
        c.set_roots([root, root.with_name("ann-old")])
        assert (await c.call("read_file", path="out")).data == "TREASURE"
        assert (await c.call("read_file", path="secret.txt")).data == "TREASURE"


async def test_a_client_without_roots_gets_no_files(tmp_path: Path) -> None:
    async with Client(server, roots=[]) as c:
        with pytest.raises(ToolFailed, match="there are none"):
            await c.call("list_files")


async def test_what_cannot_be_shown_says_so(root: Path) -> None:
    (root / "big").write_bytes(b"x" * (MAX_BYTES + 1))
    (root / "bytes").write_bytes(b"\xff\xfe")
    async with Client(server, roots=[root]) as c:
        for path, words in [("big", "larger"), ("bytes", "not text"), ("notes", "is no file")]:
            with pytest.raises(ToolFailed, match=words):
                await c.call("read_file", path=path)
        with pytest.raises(ToolFailed, match="is a file"):
            await c.call("list_files", path="in")
