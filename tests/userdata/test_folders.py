"""Where a user's settings are."""

import sys
from pathlib import Path

import pytest

from dovetail.userdata.folders import user_folder


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, ".config/dovetail"),
        ("linux", {"XDG_CONFIG_HOME": "/x"}, "/x/dovetail"),
        ("linux", {"XDG_CONFIG_HOME": ""}, ".config/dovetail"),
        ("darwin", {"XDG_CONFIG_HOME": "/x"}, "Library/Application Support/dovetail"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/dovetail"),
        ("win32", {}, "AppData/Roaming/dovetail"),
    ],
)
def test_the_user_folder_depends_on_the_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, environ: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert user_folder(environ) == Path.home() / expected
