"""Pictures and sounds: content that is bytes, and links to it.

    dovetail call examples/media.py swatch red=200 --save .

A client on the first revision gets the sound inside a resource, and the link as text: that revision knows neither.
"""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from typing import Annotated

from dovetail import Annotations, Audio, BlobContents, Context, Embedded, Image, Param, ResourceLink, Server, Text

server = Server("media", version="1.0.0")

Colour = Annotated[int, Param("0 to 255", ge=0, le=255)]
RATE = 8_000
NOTES = {"a": 440.0, "c": 523.25, "e": 659.25}


def png(red: int, green: int, blue: int, side: int = 16) -> bytes:
    """A square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, green, blue)) * side) * side
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def wav(hertz: float, seconds: float) -> bytes:
    """A tone."""
    samples = (int(12_000 * math.sin(math.tau * hertz * n / RATE)) for n in range(int(RATE * seconds)))
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()


@server.tool(read_only=True)
def swatch(red: Colour = 0, green: Colour = 0, blue: Colour = 0) -> list[Image | Text]:
    """Show a colour."""
    picture = Image(png(red, green, blue), "image/png", Annotations(audience=["user"]))
    return [picture, Text(f"#{red:02x}{green:02x}{blue:02x}", Annotations(audience=["assistant"]))]


@server.tool(read_only=True)
def tone(
    hertz: Annotated[float, Param("How high", ge=20, le=3_500)] = 440.0,
    seconds: Annotated[float, Param("How long", gt=0, le=2)] = 0.2,
) -> Audio:
    """Play a tone."""
    return Audio(wav(hertz, seconds), "audio/wav")


@server.tool(read_only=True)
def notes() -> list[ResourceLink]:
    """List the notes there are, to be read when they are wanted."""
    return [ResourceLink(f"media://notes/{name}", name, mime_type="audio/wav") for name in NOTES]


@server.tool(read_only=True)
def first_note() -> Embedded:
    """Give the first note at once."""
    return Embedded(BlobContents("media://notes/a", wav(NOTES["a"], 0.1), "audio/wav"))


@server.resource("media://notes/{name}", mime_type="audio/wav", ttl=3600, public=True)
def note(name: str) -> bytes:
    """Give a note as a sound."""
    return wav(NOTES[name], 0.5)


@server.resource("media://logo", mime_type="image/png")
async def logo(ctx: Context) -> bytes:
    """Give the picture of the server."""
    await ctx.log.debug("drawing the logo")
    return png(40, 90, 160)


if __name__ == "__main__":
    server.run()
