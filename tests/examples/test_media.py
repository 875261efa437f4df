"""examples/media.py: bytes arrive as they were sent, on revisions that know audio and on one that does not."""

import io
import struct
import wave

from dovetail import Audio, BlobContents, Client, Embedded, Image, ResourceLink, Text
from examples.media import RATE, png, server


async def test_a_picture_arrives(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        picture, words = (await c.call("swatch", red=255, blue=16)).content
        assert isinstance(picture, Image) and picture.mime_type == "image/png"
        assert picture.data == png(255, 0, 16)
        assert struct.unpack(">II", picture.data[16:24]) == (16, 16)
        assert isinstance(words, Text) and words.text == "#ff0010"


async def test_a_sound_arrives(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        (block,) = (await c.call("tone", hertz=220, seconds=0.5)).content
        if revision == "2024-11-05":
            assert isinstance(block, Embedded) and isinstance(block.resource, BlobContents)
            data = block.resource.blob
        else:
            assert isinstance(block, Audio) and block.mime_type == "audio/wav"
            data = block.data
        with wave.open(io.BytesIO(data)) as sound:
            assert sound.getnframes() == RATE // 2


async def test_links_lead_to_sounds(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        links = (await c.call("notes")).content
        if revision == "2024-11-05":
            assert all(isinstance(link, Text) and "media://notes/" in link.text for link in links)
            return
        assert [link.name for link in links if isinstance(link, ResourceLink)] == ["a", "c", "e"]
        (contents,) = (await c.read("media://notes/e")).contents
        assert isinstance(contents, BlobContents) and contents.blob.startswith(b"RIFF")


async def test_a_note_comes_within_a_result(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        (block,) = (await c.call("first_note")).content
        assert isinstance(block, Embedded) and isinstance(block.resource, BlobContents)
        assert block.resource.uri == "media://notes/a"


async def test_the_logo_is_a_resource(revision: str) -> None:
    async with Client(server, revision=revision) as c:
        (contents,) = (await c.read("media://logo")).contents
        assert isinstance(contents, BlobContents) and contents.blob == png(40, 90, 160)
