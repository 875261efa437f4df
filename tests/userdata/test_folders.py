"""Where a user's settings are."""

import sys
from pathlib import Path

import pytest

from dovetail.userdata.folders import cache_folder, runtime_folder, user_folder


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


def test_sockets_are_in_the_runtime_folder_of_the_system_if_it_has_one() -> None:
    assert runtime_folder({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/dovetail")
    assert runtime_folder({}) == user_folder({}) / "run"


def test_caches_are_apart_from_settings() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/x", "LOCALAPPDATA": "/x"}) in (
        Path("/x/dovetail"),
        Path.home() / "Library/Caches/dovetail",
    )
