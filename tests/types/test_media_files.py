"""`Image(path=…)`, `Audio(path=…)` and `Icon(path=…)` read a file; a message never does."""

from pathlib import Path

import msgspec
import pytest

from dovetail import Audio, Icon, Image
from dovetail.types.content import Annotations
from dovetail.types.media_files import MEDIA_TYPES
from dovetail.types.serialization import dump, load

PNG = b"\x89PNG\r\n"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "Logo.PNG"
    path.write_bytes(PNG)
    return path


def test_an_image_is_read_from_a_file_with_its_media_type(picture: Path) -> None:
    assert Image(path=picture) == Image(PNG, "image/png")
    assert Image(path=str(picture), mime_type="image/apng", annotations=Annotations(["user"])) == Image(
        PNG, "image/apng", Annotations(["user"])
    )


def test_a_sound_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "beep.wav").write_bytes(b"RIFF")
    assert Audio(path=tmp_path / "beep.wav") == Audio(b"RIFF", "audio/wav")


def test_an_icon_is_read_from_a_file_as_a_data_uri(picture: Path) -> None:
    icon = Icon(path=picture, sizes=["48x48"])
    assert icon == Icon("data:image/png;base64,iVBORw0K", "image/png", ["48x48"])
    assert Image(path=picture).data_uri == icon.src


def test_a_message_cannot_name_a_file(picture: Path) -> None:
    sent = {"type": "image", "path": str(picture)}
    with pytest.raises(msgspec.ValidationError, match="missing required field `data`"):
        load(Image, sent)
    assert load(Image, {**sent, "data": "eA==", "mimeType": "image/png"}).data == b"x"


def test_a_value_from_a_file_is_written_as_any_other(picture: Path) -> None:
    assert dump(Image(path=picture)) == {"type": "image", "data": "iVBORw0K", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("logo.xyz", r"logo\.xyz is not known by its name; say mime_type='image/…'"),
        ("song.mp3", r"song\.mp3 is audio/mpeg, not image"),
    ],
)
def test_a_file_of_another_kind_is_refused_before_it_is_read(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Image(path=name)


def test_a_missing_file_is_the_error_of_the_operating_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Icon(path=tmp_path / "none.png")


def test_data_and_a_path_exclude_each_other(picture: Path) -> None:
    with pytest.raises(TypeError, match="Image takes data or path, not both"):
        Image(PNG, path=picture)  # pyright: ignore[reportCallIssue]


def test_the_format_of_other_libraries_is_answered_with_the_media_type() -> None:
    with pytest.raises(TypeError, match="Image has no format; say mime_type='image/png'"):
        Image(PNG, format="png")  # pyright: ignore[reportCallIssue]


def test_every_known_media_type_is_an_image_or_a_sound() -> None:
    assert {kind.partition("/")[0] for kind in MEDIA_TYPES.values()} == {"image", "audio"}
